//! The state of the fabric in the form that the planner requires.

use tributary_planner::FabricState;

use super::ControllerState;
use crate::liveness::Doubt;
use crate::slots::SlotMap;

impl ControllerState {
    /// Returns the state of the fabric. `free` returns the number of slots that another job can get on a
    /// switch.
    pub(super) fn fabric(&self, doubt: Doubt, free: impl Fn(&SlotMap) -> u32) -> FabricState {
        let free_slots = self.slots.iter().map(|(key, map)| (*key, free(map))).collect();
        let mut fabric = FabricState {
            free_slots,
            children: Some(self.capacity.children),
            dead_nodes: self.health.dead_nodes(doubt),
            dead_links: self.health.dead_links(doubt),
            short_of_mtu: self.health.links_short_of_mtu(),
            ..FabricState::of(&self.topology, 0)
        };
        // A load in the topology file also counts while the traffic is absent.
        for (direction, load) in &mut fabric.load {
            *load = self.loads.of(*direction).max(*load);
        }
        fabric
    }
}
