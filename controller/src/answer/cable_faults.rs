//! Builds the API's answers about faults of cables.

use tributary_api::v1;
use tributary_topology::NodeKey;

use crate::liveness::{self, Life};
use crate::manager::Manager;

/// The faults of cables, each with the node at which the controller detected it.
pub(super) struct CableFaults(Vec<(NodeKey, v1::CableFault)>);

impl CableFaults {
    pub(super) fn of(manager: &Manager) -> Self {
        let (state, topology) = (manager.state(), &manager.topology());
        let fault = |kind: v1::CableFaultKind, description| v1::CableFault { kind: kind.into(), description };
        let miswired = state.cabling.miswired().map(|one| {
            let description = liveness::miswiring(topology, &one);
            (one.at.0, fault(v1::CableFaultKind::Miswired, description))
        });
        let lost = state.cabling.lost().filter_map(|(link, life)| match life {
            Life::Dead => {
                let description = format!("no frames get through {}", liveness::cable(topology, link));
                Some((link, fault(v1::CableFaultKind::Dead, description)))
            }
            Life::ShortOfMtu(width) => {
                let description = liveness::shortness(topology, link, width);
                Some((link, fault(v1::CableFaultKind::ShortOfMtu, description)))
            }
            Life::Silent | Life::Alive => None,
        });
        let at_both_ends =
            lost.flat_map(|(link, fault)| topology[link].ends.map(|end| (end.node, fault.clone())));
        Self(miswired.chain(at_both_ends).collect())
    }

    pub(super) fn at(&self, node: NodeKey) -> Vec<v1::CableFault> {
        self.0.iter().filter(|(at, _)| *at == node).map(|(_, fault)| fault.clone()).collect()
    }
}
