//! A simulated network with the tables of a plan, through which tests send packets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_planner::{Admission, Aggregation, Downlink, JobRequest, Plan, SwitchRole};
use tributary_topology::{Forwarding, LinkDirection, NodeKey, Topology};
use tributary_wire::Hop;

/// A frame on its way. It is a GRADIENT if it has contributors, and otherwise a RESULT.
#[derive(Clone, Debug)]
struct Packet {
    /// The host whose addresses the frame has. Switches do not change them.
    from: NodeKey,
    stack: Vec<Hop>,
    /// The receiver; `None` for the job's multicast address.
    to: Option<NodeKey>,
    contributors: BTreeSet<u16>,
}

/// The network with the tables of the plan. It panics if a table would drop a packet.
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

    /// Sends a packet from a host, and returns the packets that hosts receive.
    fn send(&mut self, from: NodeKey, packet: Packet) -> Vec<(NodeKey, Packet)> {
        let (mut received, mut queue) = (Vec::new(), VecDeque::from([(from, 1, packet)]));
        while let Some((node, port, packet)) = queue.pop_front() {
            let there = self.topology.neighbour(node, port).unwrap();
            let direction = self.topology.direction(there.link, node).unwrap();
            *self.bytes.entry(direction).or_default() +=
                (70 + 6 * packet.stack.len() + self.plan.width.bytes()) as u64;
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
                assert!(admission(role, ingress, packet.from).result);
                assert_eq!(group.release, role.aggregate);
                group.ports.iter().map(|&port| (port, packet.clone())).collect()
            }
            Some(_) => self.hop(role, ingress, packet),
        };
        assert!(leaving.iter().all(|(port, _)| role.egress_ports.contains(port)), "egress guard");
        leaving
    }

    /// Acts on the packet's first hop entry.
    fn hop(&mut self, role: &SwitchRole, ingress: u16, mut packet: Packet) -> Vec<(u16, Packet)> {
        let hop = packet.stack.remove(0);
        let gradient = !packet.contributors.is_empty();
        let admitted = admission(role, ingress, packet.from);
        assert_eq!(hop.node, role.node);
        assert!(if gradient { admitted.gradient } else { admitted.result });
        assert_eq!(hop.aggregate, admitted.aggregate);
        if gradient {
            assert_eq!(hop.fan_in, admitted.fan_in);
            assert!(admitted.children >> hop.child & 1 == 1);
            let sender = self.plan.workers.iter().find(|worker| worker.key == packet.from).unwrap();
            assert!(admitted.rank.is_none_or(|rank| rank == sender.rank));
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

/// Returns the admission entry for packets from a host at a port.
fn admission(role: &SwitchRole, ingress: u16, from: NodeKey) -> &Admission {
    let mut at_port = role.admission.iter().filter(|admitted| admitted.ingress_port == ingress);
    let is_for = |admitted: &&Admission| admitted.sender.as_ref().is_none_or(|sender| sender.key == from);
    at_port.find(is_for).expect("no admission")
}

/// Returns the job with every combination of aggregation and downlink.
pub(crate) fn variants(job: &JobRequest) -> Vec<JobRequest> {
    let all = [Aggregation::Tree, Aggregation::TwoLevels, Aggregation::Leaf, Aggregation::None];
    let with = |aggregation, downlink| JobRequest { aggregation, downlink, ..job.clone() };
    all.into_iter().flat_map(|a| [with(a, Downlink::Multicast), with(a, Downlink::Unicast)]).collect()
}

/// Sends one slice of every worker up, and the result down by multicast and by unicast.
pub(crate) fn walk(topology: &Topology, plan: &Plan) {
    let mut network = Network::new(topology, plan);
    let (mut children, mut contributors) = (BTreeSet::new(), BTreeSet::new());
    for worker in &plan.workers {
        let own = BTreeSet::from([worker.rank]);
        let (from, to) = (worker.key, Some(plan.server.key));
        let packet = Packet { from, stack: worker.up.clone(), to, contributors: own };
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
        let (from, to) = (plan.server.key, Some(worker.key));
        let packet = Packet { from, stack: worker.down.clone(), to, contributors: BTreeSet::new() };
        let received = results.send(plan.server.key, packet);
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].0, received[0].1.stack.len()), (worker.key, 0));
    }
    if plan.downlink == Downlink::Multicast {
        let from = plan.server.key;
        let packet = Packet { from, stack: Vec::new(), to: None, contributors: BTreeSet::new() };
        let reached: Vec<_> = network.send(plan.server.key, packet).into_iter().map(|(at, _)| at).collect();
        let workers: BTreeSet<_> = plan.workers.iter().map(|worker| worker.key).collect();
        assert_eq!((reached.len(), reached.into_iter().collect::<BTreeSet<_>>()), (workers.len(), workers));
    }
    // A gradient has slices of values with 4 bytes each, and one slice of bounds for `slices_bounded_by_one` such
    // slices.
    let values = plan.width.values() as u64;
    let sum_slices = plan.gradient_bytes.div_ceil(4).div_ceil(values);
    let slices = sum_slices + sum_slices.div_ceil(plan.width.slices_bounded_by_one() as u64);
    let expected: BTreeMap<_, _> = plan.traffic.links.iter().map(|l| (l.direction, l.bytes)).collect();
    let carried = network.bytes.into_iter().map(|(link, bytes)| (link, slices.saturating_mul(bytes)));
    assert_eq!(carried.collect::<BTreeMap<_, _>>(), expected);
}
