//! Checks a plan against the live fabric, and compares two plans.

use tributary_topology::{Forwarding, Topology};

use crate::fabric::{FabricState, forwards_along, seconds};
use crate::plan::{Plan, WorkerRoute};

/// A tree is clearly better if it takes at most this fraction of the old tree's time.
const CLEARLY_BETTER: f64 = 0.8;

/// Returns true if a job should move from plan `old` to plan `new` of the same job.
///
/// The loads of `state` include the job's own traffic. The rules, in this order:
///
/// 1. A plan that uses a dead node or link is never better, and any other plan is better than it.
/// 2. A plan with more workers is better, independent of its time.
/// 3. A plan is better if it takes at most 80 % of the old plan's time:
///
/// ```text
/// T(new) ≤ 0.8 T(old)     T(p) = max over link directions d of p:  8 b_p(d) / max(rate(d) − other(d), rate(d) / 100)
/// ```
///
/// b_p(d) is the number of bytes that one all-reduce by p puts on d. other(d) is the load of d minus the job's own load
/// there on its old tree ([`FabricState::without`]). The 20 % are hysteresis, because a change is a pause for the job,
/// and a plan that is hardly better now may be worse in a minute.
pub fn is_better(new: &Plan, old: &Plan, state: &FabricState) -> bool {
    if new.is_hit(state) || old.is_hit(state) {
        return !new.is_hit(state);
    }
    if new.workers.len() != old.workers.len() {
        return new.workers.len() > old.workers.len();
    }
    let others = state.without(old);
    time(new, &others) <= CLEARLY_BETTER * time(old, &others)
}

/// Returns the time for which the plan's busiest link is busy, in seconds.
fn time(plan: &Plan, others: &FabricState) -> f64 {
    let links = plan.traffic.links.iter();
    links.map(|link| seconds(link.bytes, link.rate, others.load(link.direction))).fold(0.0, f64::max)
}

impl Plan {
    /// Returns true if the job can run by this plan.
    ///
    /// Then every node and link of the plan is alive, and the plain switches of its tree forward along it. `topology`
    /// must be the topology that the plan was made for.
    pub fn works(&self, topology: &Topology, state: &FabricState) -> bool {
        !self.is_hit(state)
            && (self.switches.iter().all(|role| role.programmable) || {
                let forwarding = state.forwarding(topology);
                self.workers.iter().all(|worker| self.is_forwarded(worker, topology, &forwarding))
            })
    }

    /// Returns true if a node or link that the job uses is dead, or if a link loses its packets.
    fn is_hit(&self, state: &FabricState) -> bool {
        let workers = self.workers.iter().map(|worker| worker.key);
        let switches = self.switches.iter().map(|switch| switch.key);
        let mut nodes = workers.chain(switches).chain([self.server.key]);
        let mut links = self.traffic.links.iter().map(|link| link.direction.link);
        nodes.any(|node| state.dead_nodes.contains(&node))
            || links.any(|link| state.dead_links.contains(&link) || state.loses(link, self.width))
    }

    /// Returns true if every plain switch on a worker's path forwards its frames along the path.
    fn is_forwarded(&self, worker: &WorkerRoute, topology: &Topology, forwarding: &Forwarding) -> bool {
        let mut below = topology.neighbours(worker.key).first().map(|via| via.link);
        let role = |key| self.switches.binary_search_by_key(&key, |role| role.key).ok();
        let mut switches = worker.path.iter().filter_map(|key| Some(&self.switches[role(*key)?]));
        switches.all(|role| {
            let below = below.replace(role.up.link);
            let ends = [worker.key, self.server.key];
            role.programmable
                || below
                    .is_some_and(|below| forwards_along(forwarding, role.key, ends, [below, role.up.link]))
        })
    }
}
