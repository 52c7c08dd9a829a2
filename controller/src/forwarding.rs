//! The state of a switch without jobs: its identity, and the forwarding of ordinary frames.

use tributary_topology::{Forwarding, NodeKey, Topology};
use tributary_wire::{MacAddr, probe};

use crate::switch_state::SwitchState;
use crate::tables::identity::{self, SetIdentity};
use crate::tables::mac_forward::{self, Broadcast, Forward, ToController};
use crate::tables::multicast::BROADCAST_GROUP;

/// Returns the state of `switch` while no job uses it.
pub(crate) fn base_state(topology: &Topology, tree: &Forwarding, switch: NodeKey) -> SwitchState {
    let mut state = SwitchState::default();
    let Some(node) = topology.get(switch) else { return state };
    let programmable = node.switch().is_some_and(|switch| switch.programmable);
    state.put(identity::Key {}, SetIdentity { node: programmable.then_some(node.id) });
    for (key, _, host) in topology.hosts() {
        if let Some(next) = tree.next(switch, key) {
            state.put(mac_forward::Key { dst: host.mac }, Forward { port: next.port });
        }
    }
    state.put_group(BROADCAST_GROUP, tree.ports(switch).iter().map(|neighbour| neighbour.port));
    state.put(mac_forward::Key { dst: probe::DESTINATION }, ToController {});
    state.put(mac_forward::Key { dst: MacAddr::broadcast() }, Broadcast { group: BROADCAST_GROUP });
    state
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tributary_wire::NodeId;

    use super::*;
    use crate::tables::{Action, Key};

    const RING: &str = r#"
        name = "ring"
        description = "Three switches in a circle, a host at each"
        [defaults]
        rate = "1 Gbit/s"
        [[switch]]
        name = "a"
        [[switch]]
        name = "b"
        [[switch]]
        name = "c"
        programmable = false
        [[host]]
        name = "w0"
        role = "worker"
        [[host]]
        name = "w1"
        role = "worker"
        [[host]]
        name = "ps"
        role = "server"
        [[link]]
        ends = ["a", "b"]
        [[link]]
        ends = ["b", "c"]
        [[link]]
        ends = ["c", "a"]
        [[link]]
        ends = ["w0", "a"]
        [[link]]
        ends = ["w1", "b"]
        [[link]]
        ends = ["ps", "c"]
    "#;

    /// Follows the `forward` entries from node `from`, and returns the host at which a frame to `mac`
    /// arrives.
    fn follow(topology: &Topology, from: &str, mac: MacAddr) -> String {
        let tree = topology.forwarding();
        let mut at = topology.find(from).unwrap();
        for _ in 0..10 {
            let state = base_state(topology, &tree, at);
            let action = state.entries[&Key::from(mac_forward::Key { dst: mac })];
            let Some(Action::MacForward(mac_forward::Action::Forward(Forward { port }))) = action else {
                panic!("{action:?}")
            };
            at = topology.neighbour(at, port).unwrap().node;
            if topology[at].host().is_some() {
                return topology[at].name.clone();
            }
        }
        panic!("a loop");
    }

    #[test]
    fn a_frame_reaches_its_host_from_everywhere() {
        let topology = Topology::parse(RING, "ring").unwrap();
        for switch in ["a", "b", "c"] {
            for (_, node, host) in topology.hosts() {
                assert_eq!(follow(&topology, switch, host.mac), node.name);
            }
        }
    }

    #[test]
    fn a_broadcast_reaches_everyone_once() {
        let topology = Topology::parse(RING, "ring").unwrap();
        let tree = topology.forwarding();
        let start = topology.find("a").unwrap();
        let mut queue = vec![(start, None)];
        let mut seen = Vec::new();
        while let Some((at, from)) = queue.pop() {
            assert!(seen.len() < 10, "a loop");
            if topology[at].host().is_some() {
                seen.push(topology[at].name.clone());
                continue;
            }
            let state = base_state(&topology, &tree, at);
            for replica in &state.groups[&u32::from(BROADCAST_GROUP)] {
                let port = u16::try_from(replica.port).unwrap();
                let next = topology.neighbour(at, port).unwrap();
                if Some(port) != from {
                    queue.push((next.node, Some(next.remote_port)));
                }
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, ["ps", "w0", "w1"]);
    }

    #[test]
    fn a_switch_that_does_not_aggregate_is_no_node() {
        let topology = Topology::parse(RING, "ring").unwrap();
        let tree = topology.forwarding();
        let identity = |name: &str| {
            let state = base_state(&topology, &tree, topology.find(name).unwrap());
            let Some(Action::Identity(SetIdentity { node })) = state.entries[&Key::from(identity::Key {})]
            else {
                panic!("{state:?}")
            };
            node.map(NodeId::get)
        };
        assert_eq!(["a", "b", "c"].map(identity), [Some(1), Some(2), None]);
        let ports: BTreeSet<_> = tree.ports(topology.find("c").unwrap()).iter().map(|to| to.port).collect();
        assert!(!ports.is_empty());
    }
}
