//! Replaces the topology while jobs run.

use std::sync::Arc;

use tributary_topology::{NodeKey, Topology};

use super::ControllerState;
use crate::forwarding;

/// The result of applying another version of the topology.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reload {
    /// Changes that were applied, as text for users.
    pub taken: Vec<String>,
    /// Changes that were refused, each with the reason.
    pub refused: Vec<String>,
}

impl ControllerState {
    /// Applies another version of the topology as far as possible.
    /// Present generations of jobs stay unchanged. Later changes of jobs are planned with the new topology.
    pub(crate) fn evolve(&mut self, newer: &Topology) -> Reload {
        let evolution = self.topology.evolve(newer);
        let mut reload = Reload { taken: evolution.taken, refused: evolution.refused };
        let topology = Arc::new(evolution.topology);
        let resized: Vec<(NodeKey, u32)> =
            self.slots.keys().map(|key| (*key, self.capacity(&topology, *key))).collect();
        for (key, capacity) in resized {
            if self.slots.get_mut(&key).is_some_and(|map| !map.resize(capacity)) {
                let name = &topology[key].name;
                reload
                    .refused
                    .push(format!("{capacity} slots for {name}: jobs have more of them now, and keep them"));
            }
        }
        let tree = topology.forwarding();
        for (key, state) in &mut self.base {
            *state = forwarding::base_state(&topology, &tree, *key);
        }
        self.cabling.adopt(&topology);
        self.topology = topology;
        reload
    }

    /// Returns the number of slots that a switch has according to `topology`.
    fn capacity(&self, topology: &Topology, key: NodeKey) -> u32 {
        let own = topology.get(key).and_then(|node| node.switch()?.slots);
        own.map_or(self.capacity.slots, |own| own.min(self.capacity.slots))
    }

    /// Returns the present topology.
    pub(crate) fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
}

#[cfg(test)]
mod tests {
    use tributary_planner::Aggregation;

    use super::*;
    use crate::testing::{TERMS, TWO_LEAVES, controller_state, request};

    fn changed(from: &str, to: &str) -> Topology {
        assert!(TWO_LEAVES.contains(from));
        Topology::parse(&TWO_LEAVES.replacen(from, to, 1), "changed").unwrap()
    }

    #[test]
    fn a_job_keeps_its_slots_and_others_get_the_new_ones() {
        let mut state = controller_state(256, 4);
        let key = state.create("job", &request(128, Aggregation::Tree), TERMS).unwrap();
        let before = state.want(state.topology.find("leaf0").unwrap());
        let few = |slots: u32| changed("name = \"leaf0\"", &format!("name = \"leaf0\"\nslots = {slots}"));
        let refused = state.evolve(&few(64)).refused;
        assert_eq!(refused, ["64 slots for leaf0: jobs have more of them now, and keep them"]);
        assert_eq!(state.evolve(&few(128)).refused, Vec::<String>::new());
        let leaf0 = state.topology.find("leaf0").unwrap();
        assert_eq!((state.slots[&leaf0].free(), state.want(leaf0) == before), (0, true));
        assert!(state.jobs.get(key).unwrap().is_alive());
    }

    #[test]
    fn ordinary_frames_find_a_new_host() {
        let mut state = controller_state(256, 4);
        let more = "[[link]]\n    ends = [\"leaf1\", \"w9\"]\n    [[host]]\n    name = \"w9\"\n    role = \"worker\"\n";
        let newer = Topology::parse(&format!("{TWO_LEAVES}\n{more}"), "more").unwrap();
        let reload = state.evolve(&newer);
        assert_eq!(reload.taken, ["host w9", "the link between leaf1 and w9"]);
        let entries = |state: &ControllerState, switch: &str| {
            state.want(state.topology.find(switch).unwrap()).entries.len()
        };
        let fresh = super::super::tests::fresh(&newer);
        for switch in ["root", "leaf0", "leaf1"] {
            assert_eq!(entries(&state, switch), entries(&fresh, switch), "{switch}");
        }
    }
}
