//! A tree with the data from which its cost follows.

use tributary_wire::Downlink;
use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS};

use crate::error::PlanError;
use crate::fabric::Fabric;
use crate::request::JobRequest;
use crate::roles::Roles;
use crate::traffic::{Cost, Frames, Use};
use crate::tree::Tree;

/// A tree, the roles of its switches, and its cost.
pub(crate) struct CostedTree {
    pub(crate) tree: Tree,
    pub(crate) roles: Roles,
    pub(crate) downlink: Downlink,
    pub(crate) cost: Cost,
}

impl CostedTree {
    pub(crate) fn on(tree: Tree, fabric: &Fabric<'_>, job: &JobRequest) -> Self {
        let roles = Roles::on(&tree, fabric, job);
        let plain = tree.branches().iter().any(|branch| fabric.is_plain(branch.switch));
        // A plain switch does not have our multicast groups.
        let downlink = if plain { Downlink::Unicast } else { job.downlink };
        let mut choice = Self { tree, roles, downlink, cost: Cost::default() };
        choice.cost = choice.used(job).cost(fabric);
        choice
    }

    /// Returns the job's use of the tree.
    pub(crate) fn used(&self, job: &JobRequest) -> Use<'_> {
        let Self { tree, roles, downlink, .. } = self;
        Use { tree, roles, downlink: *downlink, frames: Frames::of(job) }
    }

    /// Checks that the tree fits into hop stacks and hop entries.
    pub(crate) fn fits(&self, fabric: &Fabric<'_>, job: &JobRequest) -> Result<(), PlanError> {
        let is_long = |entries: usize| entries > usize::from(MAX_HOPS);
        if self.tree.leaves().iter().any(|leaf| is_long(self.roles.entries(leaf.above))) {
            let hops = |host| {
                let first = self.tree.step(host).and_then(|up| self.tree.place(up.node));
                first.map_or(1, |place| self.roles.entries(place))
            };
            let long = job.workers.iter().map(|worker| (worker.host, hops(worker.host)));
            if let Some((worker, hops)) = long.into_iter().find(|(_, hops)| is_long(*hops)) {
                return Err(PlanError::TooDeep { worker: fabric.name(worker), hops });
            }
        }
        let children = self.roles.server_fan_in;
        if children > MAX_CHILDREN {
            return Err(PlanError::TooManyChildren { server: fabric.name(job.server), children });
        }
        Ok(())
    }
}
