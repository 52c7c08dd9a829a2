//! Paths through the fabric that are known to work because frames have just arrived along them.

use std::collections::{BTreeSet, HashSet};

use tributary_planner::Plan;
use tributary_topology::NodeKey;
use tributary_wire::Rank;

/// The working paths from some of a job's workers to its server.
#[derive(Debug, Default)]
pub(crate) struct ProvenPaths {
    /// The steps of all paths, each from one node to the next.
    steps: HashSet<(NodeKey, NodeKey)>,
}

impl ProvenPaths {
    /// Returns the paths of the workers with these ranks in `plan`.
    pub(crate) fn of(plan: &Plan, ranks: &BTreeSet<Rank>) -> Self {
        let workers = plan.workers.iter().filter(|worker| ranks.contains(&Rank::new(worker.rank)));
        let steps = workers.flat_map(|worker| worker.path.windows(2).map(|step| (step[0], step[1])));
        Self { steps: steps.collect() }
    }

    /// Returns true if one of the paths leads through this switch.
    pub(crate) fn lead_through(&self, switch: NodeKey) -> bool {
        self.steps.iter().any(|(from, _)| *from == switch)
    }

    /// Returns true if one of the paths leads over the cable between these two nodes.
    pub(crate) fn lead_over(&self, one: NodeKey, other: NodeKey) -> bool {
        self.steps.contains(&(one, other)) || self.steps.contains(&(other, one))
    }
}
