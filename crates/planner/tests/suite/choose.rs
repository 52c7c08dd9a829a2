//! Tests the choice of the workers and the server that continue after failures.

use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use tributary_planner::{Chosen, FabricState, JobRequest, Member, PlanError, choose, plan, reachable};
use tributary_testkit::topologies::topologies;
use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::SliceWidth;

use crate::shipped::shipped;

struct Fabric {
    topology: Topology,
    state: FabricState,
    job: JobRequest,
}

impl Fabric {
    fn shipped(name: &str) -> Self {
        Self::of(shipped(name))
    }

    fn of(topology: Topology) -> Self {
        let state = FabricState::of(&topology, 4096);
        let job = JobRequest::of(&topology, 64, 1 << 20).unwrap();
        Self { topology, state, job }
    }

    fn key(&self, name: &str) -> NodeKey {
        self.topology.find(name).unwrap()
    }

    fn link(&self, a: &str, b: &str) -> LinkKey {
        let b = self.key(b);
        self.topology.neighbours(self.key(a)).into_iter().find(|via| via.node == b).unwrap().link
    }

    fn kill(&mut self, name: &str) {
        self.state.dead_nodes.insert(self.key(name));
    }

    fn cut(&mut self, a: &str, b: &str) {
        self.state.dead_links.insert(self.link(a, b));
    }

    /// Makes the choice if every live host could be the server.
    fn chosen(&self) -> Result<Chosen, PlanError> {
        let hosts = self.topology.hosts().map(|(key, ..)| key);
        let alive: Vec<_> = hosts.filter(|key| !self.state.dead_nodes.contains(key)).collect();
        choose(&self.topology, &self.state, &self.job, &alive)
    }

    /// Returns the chosen server and the ranks that are left out.
    /// Checks that a plan exists for all other ranks.
    #[track_caller]
    fn server_and_lost(&self) -> (String, Vec<u16>) {
        let Chosen { server, left_out } = self.chosen().unwrap();
        let mut job = JobRequest { server, ..self.job.clone() };
        job.workers.retain(|worker| !left_out.contains(worker));
        let plan = plan(&self.topology, &self.state, &job).unwrap();
        assert_eq!(plan.workers.len() + left_out.len(), self.job.workers.len());
        (plan.server.name, left_out.iter().map(|worker| worker.rank).collect())
    }

    fn reached(&self, server: &str) -> Vec<&str> {
        let hosts = reachable(&self.topology, &self.state, self.key(server), SliceWidth::NARROWEST);
        hosts.into_iter().map(|host| self.topology[host].name.as_str()).collect()
    }
}

fn lost(server: &str, ranks: impl IntoIterator<Item = u16>) -> (String, Vec<u16>) {
    (server.to_owned(), ranks.into_iter().collect())
}

#[test]
fn who_reaches_the_server() {
    let mut fabric = Fabric::shipped("three-tier-8.toml");
    let all = ["ps", "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"];
    assert_eq!(fabric.reached("ps"), all);
    assert_eq!(fabric.reached("w3"), all);
    fabric.kill("leaf1");
    fabric.cut("mid1", "leaf2");
    assert_eq!(fabric.reached("ps"), ["ps", "w0", "w1", "w6", "w7"]);
    assert_eq!(fabric.reached("w5"), ["w4", "w5"]);
    assert!(fabric.reached("w2").is_empty());
    assert!(fabric.reached("leaf0").is_empty(), "a switch serves nobody");
}

#[test]
fn nothing_changes_while_all_is_well() {
    for name in ["three-tier-8.toml", "leaf-spine-8.toml", "plain-middle-4.toml"] {
        let mut fabric = Fabric::shipped(name);
        assert_eq!(fabric.server_and_lost(), lost("ps", []));
        // A worker that is the server keeps this role, even if the intended server is back.
        fabric.job.server = fabric.key("w1");
        assert_eq!(fabric.server_and_lost(), lost("w1", []));
    }
}

#[test]
fn without_the_root_one_half_goes_on_and_a_worker_serves() {
    let mut fabric = Fabric::shipped("three-tier-8.toml");
    fabric.kill("root");
    assert_eq!(fabric.server_and_lost(), lost("w0", 4..8));
    fabric.kill("w1");
    assert_eq!(fabric.server_and_lost(), lost("w4", 0..4), "the larger half");
    // The present server continues if the two halves have equally many workers again.
    fabric.job.server = fabric.key("w6");
    fabric.state.dead_nodes.remove(&fabric.key("w1"));
    assert_eq!(fabric.server_and_lost(), lost("w6", 0..4));
}

#[test]
fn a_dead_server_costs_nobody() {
    let mut fabric = Fabric::shipped("three-tier-8.toml");
    fabric.kill("ps");
    assert_eq!(fabric.server_and_lost(), lost("w0", []));
    fabric.kill("w0");
    assert_eq!(fabric.server_and_lost(), lost("w1", [0]));
    // The order of ranks decides, and not the topology's order.
    fabric.job.workers = Member::ranked(fabric.job.workers.iter().rev().map(|worker| worker.host));
    assert_eq!(fabric.server_and_lost(), lost("w7", [7]));
}

#[test]
fn a_host_that_is_meant_to_serve_comes_before_workers_and_those_before_others() {
    let text = "name = 'standby'\ndefaults = { rate = '1 Gbit/s' }
        switch = [{ name = 's' }]
        host = [{ name = 'idle' }, { name = 'w0', role = 'worker' }, { name = 'w1', role = 'worker' },
                { name = 'ps0', role = 'server' }, { name = 'ps1', role = 'server' }]
        link = [{ ends = ['s', 'idle'] }, { ends = ['s', 'w0'] }, { ends = ['s', 'w1'] },
                { ends = ['s', 'ps0'] }, { ends = ['s', 'ps1'] }]";
    let mut fabric = Fabric::of(Topology::parse(text, "standby.toml").unwrap());
    for next in ["ps0", "ps1", "w0", "w1"] {
        fabric.job.workers.retain(|worker| !fabric.state.dead_nodes.contains(&worker.host));
        assert_eq!(fabric.server_and_lost(), lost(next, []));
        fabric.kill(next);
    }
    assert!(matches!(fabric.chosen(), Err(PlanError::NoServer { .. })), "only the idle host is left");
}

#[test]
fn a_dead_spine_costs_nobody_and_a_cut_uplink_moves_the_tree() {
    let mut fabric = Fabric::shipped("leaf-spine-8.toml");
    let spines = |fabric: &Fabric| -> Vec<String> {
        let plan = plan(&fabric.topology, &fabric.state, &fabric.job).unwrap();
        plan.switches.into_iter().map(|s| s.name).filter(|name| name.starts_with("spine")).collect()
    };
    assert_eq!(spines(&fabric), ["spine0"]);
    fabric.cut("spine0", "leaf3");
    assert_eq!(fabric.server_and_lost(), lost("ps", []));
    assert_eq!(spines(&fabric), ["spine1"]);
    fabric.state.dead_links.clear();
    fabric.kill("spine0");
    assert_eq!(fabric.server_and_lost(), lost("ps", []));
    assert_eq!(spines(&fabric), ["spine1"]);
    // If the other spine dies, too, the server keeps only the workers of its own leaf.
    fabric.kill("spine1");
    assert_eq!(fabric.server_and_lost(), lost("ps", 2..8));
}

#[test]
fn nobody_is_left() {
    let mut fabric = Fabric::shipped("two-workers.toml");
    fabric.kill("leaf");
    let error = fabric.chosen().unwrap_err();
    assert!(error.to_string().contains("could serve it (ps, w0, w1)"), "{error}");
    let none = choose(&fabric.topology, &fabric.state, &fabric.job, &[]).unwrap_err();
    assert_eq!(none, PlanError::NoServer { candidates: Vec::new() });
    let switch = choose(&fabric.topology, &fabric.state, &fabric.job, &[fabric.key("leaf")]);
    assert!(matches!(switch, Err(PlanError::NoServer { .. })));
    fabric.job.workers.clear();
    assert_eq!(fabric.chosen().unwrap_err(), PlanError::NoWorkers);
}

/// A topology in which two plain switches lead to the root.
/// If the link of q is cut, q can only continue through x, and p only through n.
const CROSSED: &str = "name = 'crossed'\ndefaults = { rate = '1 Gbit/s' }
    switch = [{ name = 'root' }, { name = 'n', programmable = false }, { name = 'm', programmable = false },
              { name = 'p' }, { name = 'x' }, { name = 'q' }]
    host = [{ name = 'ps', role = 'server' }, { name = 'a', role = 'worker' }, { name = 'b', role = 'worker' }]
    link = [{ ends = ['root', 'ps'] }, { ends = ['root', 'm'] }, { ends = ['root', 'n'] },
            { ends = ['n', 'p'] }, { ends = ['m', 'x'] }, { ends = ['x', 'q'] }, { ends = ['p', 'q'] },
            { ends = ['p', 'x'] }, { ends = ['q', 'a'] }, { ends = ['p', 'b'] }]";

#[test]
fn workers_whose_ways_do_not_go_together_are_not_kept_together() {
    let mut fabric = Fabric::of(Topology::parse(CROSSED, "crossed.toml").unwrap());
    let ps = [fabric.key("ps")];
    let choose = |fabric: &Fabric| choose(&fabric.topology, &fabric.state, &fabric.job, &ps).unwrap();
    assert_eq!(choose(&fabric).left_out, []);
    fabric.cut("x", "q");
    assert_eq!(fabric.reached("ps"), ["ps", "a", "b"], "each alone");
    assert_eq!(choose(&fabric).left_out, [fabric.job.workers[1]]);
    assert_eq!(fabric.server_and_lost(), lost("a", []), "together they reach the one that serves");
}

#[test]
fn a_plain_switch_takes_frames_along_its_own_way_only() {
    let text = "name = 'ring'\ndefaults = { rate = '1 Gbit/s' }
        switch = [{ name = 'a' }, { name = 'b', programmable = false }, { name = 'c' }]
        host = [{ name = 'ps', role = 'server' }, { name = 'w', role = 'worker' }, { name = 'v', role = 'worker' }]
        link = [{ ends = ['a', 'b'] }, { ends = ['b', 'c'] }, { ends = ['c', 'a'] },
                { ends = ['a', 'ps'] }, { ends = ['c', 'w'] }, { ends = ['b', 'v'] }]";
    let mut fabric = Fabric::of(Topology::parse(text, "ring.toml").unwrap());
    assert_eq!(fabric.reached("ps"), ["ps", "w", "v"]);
    assert_eq!(fabric.reached("v"), ["ps", "w"], "its own gradients would not come back to it");
    // The path from c through b is alive. But b would send frames for c to a, and not back along this path.
    fabric.cut("c", "a");
    assert_eq!(fabric.reached("ps"), ["ps", "v"]);
    assert_eq!(fabric.server_and_lost(), lost("ps", [0]));
}

#[test]
fn a_way_that_plain_switches_take_is_found_though_no_short_one_is_such() {
    let text = "name = 'loop'\ndefaults = { rate = '100 Mbit/s' }
        switch = [{ name = 's0' }, { name = 'p', programmable = false }, { name = 's2' }, { name = 's3' }]
        host = [{ name = 'ps', role = 'server' }, { name = 'w', role = 'worker' }]
        link = [{ ends = ['p', 's0'], load = '69 Mbit/s' }, { ends = ['s2', 's0'] }, { ends = ['s3', 's0'] },
                { ends = ['p', 's3'] }, { ends = ['s3', 's2'] }, { ends = ['p', 'ps'] }, { ends = ['s2', 'w'] }]";
    let mut fabric = Fabric::of(Topology::parse(text, "loop.toml").unwrap());
    // p still sends frames for w to s0, whose link is loaded. So all short paths enter p from s3.
    fabric.cut("s2", "s0");
    assert_eq!(fabric.reached("ps"), ["w"]);
    let plan = plan(&fabric.topology, &fabric.state, &fabric.job).unwrap();
    let way: Vec<_> = plan.workers[0].path.iter().map(|key| fabric.topology[*key].name.as_str()).collect();
    assert_eq!(way, ["w", "s2", "s3", "s0", "p", "ps"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_plan_keeps_all_that_are_not_left_out(
        topology in topologies(),
        dead in prop::collection::vec(any::<Index>(), 0..4),
        dead_links in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let mut fabric = Fabric::of(topology);
        let nodes: Vec<_> = fabric.topology.nodes().map(|(key, _)| key).collect();
        let links: Vec<_> = fabric.topology.links().map(|(key, _)| key).collect();
        fabric.state.dead_nodes.extend(dead.iter().map(|one| *one.get(&nodes)));
        fabric.state.dead_links.extend(dead_links.iter().map(|one| *one.get(&links)));
        let hosts: Vec<_> = fabric.topology.hosts().map(|(key, ..)| key).collect();
        let reached = |server: &NodeKey| -> BTreeSet<u16> {
            let hosts = reachable(&fabric.topology, &fabric.state, *server, SliceWidth::NARROWEST);
            let near = fabric.job.workers.iter().filter(|worker| hosts.contains(&worker.host));
            near.map(|worker| worker.rank).collect()
        };
        let most = hosts.iter().map(|host| reached(host).len()).max().unwrap_or(0);
        match fabric.chosen() {
            Ok(Chosen { left_out, .. }) => {
                let kept = fabric.job.workers.len() - left_out.len();
                prop_assert!(0 < kept && kept <= most);
                prop_assert!(left_out.is_sorted_by_key(|worker| worker.rank));
                fabric.server_and_lost();
                let all_programmable = fabric.topology.switches().all(|(_, _, switch)| switch.programmable);
                prop_assert!(kept == most || !all_programmable);
            }
            Err(PlanError::NoServer { .. }) => prop_assert_eq!(most, 0),
            Err(error) => panic!("{error}"),
        }
    }

    /// A host reaches a server exactly if a plan for this host alone exists.
    #[test]
    fn reaching_is_having_a_plan(topology in topologies(), dead in prop::collection::vec(any::<Index>(), 0..3)) {
        let mut fabric = Fabric::of(topology);
        let links: Vec<_> = fabric.topology.links().map(|(key, _)| key).collect();
        fabric.state.dead_links.extend(dead.iter().map(|one| *one.get(&links)));
        for server in [fabric.key("ps"), fabric.key("w0")] {
            let reached = reachable(&fabric.topology, &fabric.state, server, SliceWidth::NARROWEST);
            for worker in &fabric.job.workers {
                let job = JobRequest { workers: vec![*worker], server, ..fabric.job.clone() };
                match plan(&fabric.topology, &fabric.state, &job) {
                    Ok(_) => prop_assert!(reached.contains(&worker.host)),
                    Err(PlanError::TooDeep { .. }) => prop_assert!(reached.contains(&worker.host)),
                    Err(PlanError::Unreachable { .. } | PlanError::WorkerServesBehindPlainSwitch { .. }) => {
                        prop_assert!(!reached.contains(&worker.host));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}
