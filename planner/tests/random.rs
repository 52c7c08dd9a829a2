//! Plans on random topologies, judged by walking packets through the tables that they ask for.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;
use tributary_planner::{Aggregation, Downlink, FabricState, JobRequest, Plan, PlanError, SwitchRole, plan};
use tributary_topology::{Forwarding, LinkDirection, NodeKey, Topology};
use tributary_wire::Hop;

/// A frame on its way: GRADIENT when it carries contributors, RESULT else.
#[derive(Clone, Debug)]
struct Packet {
    stack: Vec<Hop>,
    /// `None`: the job's multicast address.
    to: Option<NodeKey>,
    contributors: BTreeSet<u16>,
}

/// The network as the plan sets it up. Anything that a table would drop panics.
struct Network<'a> {
    topology: &'a Topology,
    plan: &'a Plan,
    forwarding: Forwarding,
    slots: BTreeMap<NodeKey, (BTreeSet<u8>, BTreeSet<u16>)>,
    bytes: BTreeMap<LinkDirection, u64>,
}

impl<'a> Network<'a> {
    fn new(topology: &'a Topology, plan: &'a Plan) -> Self {
        let forwarding = topology.forwarding();
        Self { topology, plan, forwarding, slots: BTreeMap::new(), bytes: BTreeMap::new() }
    }

    /// Sends from a host and returns what hosts receive.
    fn send(&mut self, from: NodeKey, packet: Packet) -> Vec<(NodeKey, Packet)> {
        let (mut received, mut queue) = (Vec::new(), VecDeque::from([(from, 1, packet)]));
        while let Some((node, port, packet)) = queue.pop_front() {
            let there = self.topology.neighbour(node, port).unwrap();
            let direction = self.topology.direction(there.link, node).unwrap();
            *self.bytes.entry(direction).or_default() += (66 + 6 * packet.stack.len() + 1024) as u64;
            match self.topology[there.node].switch() {
                None => received.push((there.node, packet)),
                Some(_) => {
                    let leaving = self.switch(there.node, there.remote_port, packet);
                    queue.extend(leaving.into_iter().map(|(port, packet)| (there.node, port, packet)));
                }
            }
        }
        received
    }

    fn switch(&mut self, node: NodeKey, ingress: u16, packet: Packet) -> Vec<(u16, Packet)> {
        let role = self.plan.switches.iter().find(|role| role.key == node).expect("not on the tree");
        if !role.programmable {
            let to = packet.to.expect("a plain switch knows no groups");
            let port = self.forwarding.next(node, to).unwrap().port;
            assert_ne!(port, ingress, "a plain switch sends nothing back");
            return vec![(port, packet)];
        }
        let leaving = match packet.to {
            None => {
                let group = role.result_group.as_ref().unwrap();
                assert!(role.admission.iter().any(|a| a.result && a.ingress_port == ingress));
                assert_eq!(group.release, role.aggregate);
                group.ports.iter().map(|&port| (port, packet.clone())).collect()
            }
            Some(_) => self.hop(role, ingress, packet),
        };
        assert!(leaving.iter().all(|(port, _)| role.egress_ports.contains(port)), "egress guard");
        leaving
    }

    /// Acts on the first hop entry.
    fn hop(&mut self, role: &SwitchRole, ingress: u16, mut packet: Packet) -> Vec<(u16, Packet)> {
        let hop = packet.stack.remove(0);
        let gradient = !packet.contributors.is_empty();
        let admitted = role.admission.iter().find(|a| a.ingress_port == ingress).expect("no admission");
        assert_eq!(hop.node, role.node);
        assert!(if gradient { admitted.gradient } else { admitted.result });
        assert_eq!(hop.aggregate, admitted.aggregate);
        if gradient {
            assert_eq!(hop.fan_in, admitted.fan_in);
            assert!(admitted.children >> hop.child & 1 == 1);
        }
        if gradient && hop.aggregate {
            let (children, contributors) = self.slots.entry(role.key).or_default();
            assert!(children.insert(hop.child), "a child that was added already");
            contributors.append(&mut packet.contributors);
            if children.len() < usize::from(hop.fan_in) {
                return Vec::new();
            }
            packet.contributors.clone_from(contributors);
        }
        vec![(hop.egress_port, packet)]
    }
}

/// Every way to aggregate and to bring results back, for a job of 1,024 bytes.
fn jobs(topology: &Topology) -> Vec<JobRequest> {
    variants(&JobRequest::of(topology, 64, 1024).unwrap())
}

/// The same with a worker as the server.
fn jobs_that_a_worker_serves(topology: &Topology, server: Index) -> Vec<JobRequest> {
    let job = JobRequest::of(topology, 64, 1024).unwrap();
    let server = server.get(&job.workers).host;
    variants(&JobRequest { server, ..job })
}

fn variants(job: &JobRequest) -> Vec<JobRequest> {
    let all = [Aggregation::Tree, Aggregation::Leaf, Aggregation::None];
    let with = |aggregation, downlink| JobRequest { aggregation, downlink, ..job.clone() };
    all.into_iter().flat_map(|a| [with(a, Downlink::Multicast), with(a, Downlink::Unicast)]).collect()
}

/// Sends one slice of every worker up and the result down, both ways.
fn walk(topology: &Topology, plan: &Plan) {
    let mut network = Network::new(topology, plan);
    let (mut children, mut contributors) = (BTreeSet::new(), BTreeSet::new());
    for worker in &plan.workers {
        let own = BTreeSet::from([worker.rank]);
        let packet = Packet { stack: worker.up.clone(), to: Some(plan.server.key), contributors: own };
        for (at, packet) in network.send(worker.key, packet) {
            assert_eq!((at, packet.stack.len()), (plan.server.key, 1));
            let entry = packet.stack[0];
            assert_eq!((entry.node, entry.fan_in), (plan.server.node, plan.server.fan_in));
            assert!(children.insert(entry.child));
            for rank in packet.contributors {
                assert!(contributors.insert(rank), "rank {rank} arrived twice");
            }
        }
    }
    assert_eq!(children, (0..plan.server.fan_in).collect());
    assert_eq!(contributors.len(), plan.workers.len());

    let mut asked_again = Network::new(topology, plan);
    let results = match plan.downlink {
        Downlink::Unicast => &mut network,
        Downlink::Multicast => &mut asked_again,
    };
    for worker in &plan.workers {
        let packet =
            Packet { stack: worker.down.clone(), to: Some(worker.key), contributors: BTreeSet::new() };
        let received = results.send(plan.server.key, packet);
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].0, received[0].1.stack.len()), (worker.key, 0));
    }
    if plan.downlink == Downlink::Multicast {
        let packet = Packet { stack: Vec::new(), to: None, contributors: BTreeSet::new() };
        let reached: Vec<_> = network.send(plan.server.key, packet).into_iter().map(|(at, _)| at).collect();
        let workers: BTreeSet<_> = plan.workers.iter().map(|worker| worker.key).collect();
        assert_eq!((reached.len(), reached.into_iter().collect::<BTreeSet<_>>()), (workers.len(), workers));
    }
    // 1,024 bytes of gradient are one SUM slice and one MAX slice.
    let expected: BTreeMap<_, _> = plan.traffic.links.iter().map(|l| (l.direction, l.bytes)).collect();
    let carried: BTreeMap<_, _> = network.bytes.into_iter().map(|(link, bytes)| (link, 2 * bytes)).collect();
    assert_eq!(carried, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_find_their_way_through_the_tables(topology in common::topologies()) {
        let state = FabricState::of(&topology, 4096);
        for job in jobs(&topology) {
            match plan(&topology, &state, &job) {
                Ok(plan) => walk(&topology, &plan),
                Err(PlanError::TooDeep { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_worker_may_be_the_server(topology in common::topologies(), server in any::<Index>()) {
        let state = FabricState::of(&topology, 4096);
        for job in jobs_that_a_worker_serves(&topology, server) {
            match plan(&topology, &state, &job) {
                Ok(plan) => walk(&topology, &plan),
                Err(PlanError::WorkerServesBehindPlainSwitch { switch, .. }) => {
                    let plain = topology[topology.find(&switch).unwrap()].switch().unwrap();
                    prop_assert!(!plain.programmable);
                }
                Err(PlanError::TooDeep { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_plan_is_deterministic(topology in common::topologies()) {
        let state = FabricState::of(&topology, 4096);
        let job = &jobs(&topology)[0];
        prop_assert_eq!(plan(&topology, &state, job), plan(&topology, &state.clone(), job));
    }

    #[test]
    fn aggregation_never_costs(topology in common::topologies()) {
        let state = FabricState::of(&topology, 4096);
        let seconds: Vec<_> = jobs(&topology)
            .iter()
            .filter(|job| job.downlink == Downlink::Unicast)
            .filter_map(|job| Some(plan(&topology, &state, job).ok()?.traffic.into_server))
            .collect();
        prop_assert!(seconds.is_sorted(), "tree, leaf, none: {:?}", seconds);
    }

    #[test]
    fn whatever_is_dead_is_avoided_or_refused(
        topology in common::topologies(),
        dead in prop::collection::vec(any::<Index>(), 1..4),
    ) {
        let mut state = FabricState::of(&topology, 4096);
        for (n, dead) in dead.into_iter().enumerate() {
            if n % 2 == 0 {
                state.dead_links.insert(topology.links().nth(dead.index(topology.links().count())).unwrap().0);
            } else {
                state.dead_nodes.insert(topology.switches().nth(dead.index(topology.switches().count())).unwrap().0);
            }
        }
        match plan(&topology, &state, &jobs(&topology)[0]) {
            Ok(plan) => {
                prop_assert!(plan.traffic.links.iter().all(|l| !state.dead_links.contains(&l.direction.link)));
                prop_assert!(plan.switches.iter().all(|s| !state.dead_nodes.contains(&s.key)));
                walk(&topology, &plan);
            }
            Err(PlanError::Unreachable { .. } | PlanError::TooDeep { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
