//! Tests when a job should move to another tree, and how its own traffic matters.

use tributary_planner::{FabricState, JobRequest, Member, Plan, is_better, plan};
use tributary_topology::{LinkDirection, LinkKey, NodeKey, Topology};
use tributary_wire::SliceWidth;

use crate::shipped::shipped;

struct Fabric {
    topology: Topology,
    state: FabricState,
}

impl Fabric {
    fn shipped(name: &str) -> Self {
        Self::of(shipped(name))
    }

    fn of(topology: Topology) -> Self {
        let state = FabricState::of(&topology, 4096);
        Self { topology, state }
    }

    fn key(&self, name: &str) -> NodeKey {
        self.topology.find(name).unwrap()
    }

    fn link(&self, a: &str, b: &str) -> LinkKey {
        let b = self.key(b);
        self.topology.neighbours(self.key(a)).into_iter().find(|via| via.node == b).unwrap().link
    }

    fn direction(&self, from: &str, to: &str) -> LinkDirection {
        self.topology.direction(self.link(from, to), self.key(from)).unwrap()
    }

    fn job(&self) -> JobRequest {
        JobRequest::of(&self.topology, 64, 1 << 20).unwrap()
    }

    fn plan(&self, job: &JobRequest) -> Plan {
        plan(&self.topology, &self.state, job).unwrap()
    }

    /// Plans a job while this link is dead. Afterwards the link is alive again.
    fn plan_without(&mut self, a: &str, b: &str, job: &JobRequest) -> Plan {
        let link = self.link(a, b);
        self.state.dead_links.insert(link);
        let plan = self.plan(job);
        self.state.dead_links.remove(&link);
        plan
    }

    /// Sets the loads that port counters show while a job runs this number of all-reduces per second.
    fn runs(&mut self, plan: &Plan, per_second: f64) {
        for link in &plan.traffic.links {
            let load = self.state.load.entry(link.direction).or_default();
            *load += (per_second * 8.0 * link.bytes as f64) as u64;
        }
    }
}

fn spine(plan: &Plan) -> &str {
    let mut names = plan.switches.iter().map(|switch| switch.name.as_str());
    names.find(|name| name.starts_with("spine")).unwrap()
}

#[test]
fn a_job_does_not_flee_from_its_own_traffic() {
    let mut fabric = Fabric::shipped("leaf-spine-8.toml");
    let old = fabric.plan(&fabric.job());
    let other = fabric.plan_without("spine0", "leaf3", &fabric.job());
    assert_eq!((spine(&old), spine(&other)), ("spine0", "spine1"));
    assert!(!is_better(&other, &old, &fabric.state) && !is_better(&old, &other, &fabric.state));

    // 5 all-reduces of 1 MiB per second nearly fill links of 50 Mbit/s.
    fabric.runs(&old, 5.0);
    assert_eq!(spine(&fabric.plan(&fabric.job())), "spine1", "planned on the loads as they are");
    assert!(!is_better(&other, &old, &fabric.state));
    let clean = fabric.state.without(&old);
    assert!(clean.load.values().all(|load| *load < 1000), "{:?}", clean.load);
    assert_eq!(plan(&fabric.topology, &clean, &fabric.job()).unwrap(), old);
}

#[test]
fn others_on_its_links_drive_a_job_away_if_that_is_clearly_better() {
    let mut fabric = Fabric::shipped("leaf-spine-8.toml");
    let old = fabric.plan(&fabric.job());
    let other = fabric.plan_without("spine0", "leaf3", &fabric.job());
    fabric.runs(&old, 2.0);
    let uplink = fabric.direction("leaf2", "spine0");
    let own = fabric.state.load[&uplink];
    // The workers' links determine the tree's time until an uplink has less than 50 Mbit/s left for the job.
    for (others, moves) in [(8_000_000, false), (12_000_000, true), (45_000_000, true)] {
        fabric.state.load.insert(uplink, own + others);
        assert_eq!(is_better(&other, &old, &fabric.state), moves, "{others}");
        assert!(!is_better(&old, &other, &fabric.state));
    }
}

#[test]
fn a_job_moves_back_to_the_servers_own_host_but_not_for_a_little() {
    let mut fabric = Fabric::shipped("three-tier-8.toml");
    let worker_serves = fabric.plan(&JobRequest { server: fabric.key("w0"), ..fabric.job() });
    let back = fabric.plan(&fabric.job());
    fabric.runs(&worker_serves, 1.0);
    // The link of w0 must carry everything twice.
    assert!(is_better(&back, &worker_serves, &fabric.state));
    assert!(!is_better(&worker_serves, &back, &fabric.state));

    // A move of the server from one worker to another gains nothing.
    let other = fabric.plan(&JobRequest { server: fabric.key("w5"), ..fabric.job() });
    assert!(!is_better(&other, &worker_serves, &fabric.state));
}

#[test]
fn what_is_alive_and_who_is_in_come_before_times() {
    let mut fabric = Fabric::shipped("leaf-spine-8.toml");
    let all = fabric.plan(&fabric.job());
    let mut fewer = fabric.job();
    fewer.workers.truncate(2);
    let fewer = fabric.plan(&fewer);
    assert!(is_better(&all, &fewer, &fabric.state));
    assert!(!is_better(&fewer, &all, &fabric.state));

    let other = fabric.plan_without("spine0", "leaf3", &fabric.job());
    assert!(all.works(&fabric.topology, &fabric.state));
    fabric.state.dead_links.insert(fabric.link("spine0", "leaf3"));
    assert!(!all.works(&fabric.topology, &fabric.state) && other.works(&fabric.topology, &fabric.state));
    assert!(is_better(&other, &all, &fabric.state) && is_better(&fewer, &all, &fabric.state));
    assert!(!is_better(&all, &other, &fabric.state));
    fabric.state.dead_nodes.insert(fabric.key("w7"));
    assert!(!is_better(&other, &all, &fabric.state), "neither works");
}

#[test]
fn a_link_that_loses_a_jobs_packets_is_left_and_one_that_loses_longer_ones_is_not() {
    let mut fabric = Fabric::shipped("leaf-spine-8.toml");
    let job = fabric.job();
    let present = fabric.plan(&job);
    let (here, there) = match spine(&present) {
        "spine0" => ("spine0", "spine1"),
        _ => ("spine1", "spine0"),
    };
    let link = fabric.link(here, "leaf0");
    fabric.state.short_of_mtu.insert(link, SliceWidth::WIDEST);
    assert!(present.works(&fabric.topology, &fabric.state), "its slices have {} values", job.width.values());
    assert_eq!(fabric.plan(&job), present);
    fabric.state.short_of_mtu.insert(link, job.width);
    assert!(!present.works(&fabric.topology, &fabric.state));
    let new = fabric.plan(&job);
    assert_eq!(spine(&new), there);
    assert!(is_better(&new, &present, &fabric.state));
}

/// Makes three spines above two leaves: two servers at the first leaf, four workers at the second.
fn three_spines() -> Fabric {
    let mut text = "name = 'three'\ndefaults = { rate = '100 Mbit/s' }\nswitch = [".to_owned();
    text += "{ name = 's0' }, { name = 's1' }, { name = 's2' }, { name = 'l0' }, { name = 'l1' }]\nhost = [";
    text += "{ name = 'ps0', role = 'server' }, { name = 'ps1', role = 'server' },";
    text.extend((0..4).map(|n| format!("{{ name = 'w{n}', role = 'worker' }},")));
    text += "]\nlink = [{ ends = ['l0', 'ps0'] }, { ends = ['l0', 'ps1'] },";
    text.extend((0..3).flat_map(|s| (0..2).map(move |l| format!("{{ ends = ['s{s}', 'l{l}'] }},"))));
    text.extend((0..4).map(|n| format!("{{ ends = ['l1', 'w{n}'] }},")));
    Fabric::of(Topology::parse(&(text + "]\n"), "three.toml").unwrap())
}

#[test]
fn jobs_that_move_together_do_not_all_move_to_the_same_place() {
    let mut fabric = three_spines();
    let job = |server: &str, workers: [&str; 2]| JobRequest {
        server: fabric.key(server),
        workers: Member::ranked(workers.map(|name| fabric.key(name))),
        ..fabric.job()
    };
    let jobs = [job("ps0", ["w0", "w1"]), job("ps1", ["w2", "w3"])];
    let old = jobs.each_ref().map(|job| fabric.plan(job));
    old.iter().for_each(|plan| fabric.runs(plan, 3.0));
    let s0 = fabric.key("s0");
    let spines = |fabric: &Fabric, plan: &Plan| -> Vec<String> {
        let keys = plan.switches.iter().map(|switch| switch.key);
        keys.filter(|key| key.index() < 3).map(|key| fabric.topology[key].name.clone()).collect()
    };
    assert_eq!(old.each_ref().map(|plan| spines(&fabric, plan)), [["s0"], ["s0"]], "they share a spine");

    fabric.state.dead_nodes.insert(s0);
    let first = plan(&fabric.topology, &fabric.state.without(&old[0]), &jobs[0]).unwrap();
    let state = fabric.state.moved(&old[0], &first);
    let second = plan(&fabric.topology, &state.without(&old[1]), &jobs[1]).unwrap();
    assert_eq!([&first, &second].map(|plan| spines(&fabric, plan)), [["s1"], ["s2"]]);
}

#[test]
fn plain_switches_go_on_as_they_forward_until_that_is_repaired() {
    let text = "name = 'ring'\ndefaults = { rate = '1 Gbit/s' }
        switch = [{ name = 'a' }, { name = 'b', programmable = false }, { name = 'c' }]
        host = [{ name = 'ps', role = 'server' }, { name = 'w', role = 'worker' }, { name = 'v', role = 'worker' }]
        link = [{ ends = ['a', 'b'] }, { ends = ['b', 'c'] }, { ends = ['c', 'a'] },
                { ends = ['a', 'ps'] }, { ends = ['c', 'w'] }, { ends = ['b', 'v'] }]";
    let mut fabric = Fabric::of(Topology::parse(text, "ring.toml").unwrap());
    let before = fabric.plan(&fabric.job());
    fabric.state.dead_links.insert(fabric.link("c", "a"));
    assert!(plan(&fabric.topology, &fabric.state, &fabric.job()).is_err());

    let dead = (&fabric.state.dead_nodes, &fabric.state.dead_links);
    fabric.state.forwarding = Some(fabric.topology.forwarding_without(dead.0, dead.1));
    let around = fabric.plan(&fabric.job());
    assert_eq!(around.workers[0].path.len(), 5, "w goes round by b");
    assert!(around.works(&fabric.topology, &fabric.state) && !before.works(&fabric.topology, &fabric.state));
    // With ordinary forwarding again, b sends frames for w along the short path.
    fabric.state.forwarding = None;
    fabric.state.dead_links.clear();
    assert!(!around.works(&fabric.topology, &fabric.state) && before.works(&fabric.topology, &fabric.state));
}
