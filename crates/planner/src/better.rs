//! Whether a plan works with what is alive now, and whether another one is clearly better.

use tributary_topology::{Forwarding, Topology};

use crate::fabric::{FabricState, forwards_along, seconds};
use crate::plan::{Plan, WorkerRoute};

/// The largest share of the old tree's time that a clearly better tree takes.
const CLEARLY_BETTER: f64 = 0.8;

/// Whether a job should move from `old` to `new`, another plan of the same job, under the loads of `state`, which
/// include the job's own traffic. In this order:
///
/// 1. A plan that uses something dead is never better, and any other is better than it.
/// 2. A plan with more workers is better, whatever its time.
/// 3. A plan is better if it takes at most 80 % of the old one's time:
///
/// ```text
/// T(new) ≤ 0.8 T(old)     T(p) = max over link directions d of p:  8 b_p(d) / max(rate(d) − other(d), rate(d) / 100)
/// ```
///
/// b_p(d) are the bytes that one all-reduce by p puts on d, and other(d) is the load of d less what the job itself
/// causes there on its old tree ([`FabricState::without`]). The 20 % are hysteresis: a change is a pause for the job,
/// and what is hardly better now may be worse in a minute.
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

/// How long the plan's busiest link takes, in seconds.
fn time(plan: &Plan, others: &FabricState) -> f64 {
    let links = plan.traffic.links.iter();
    links.map(|link| seconds(link.bytes, link.rate, others.load(link.direction))).fold(0.0, f64::max)
}

impl Plan {
    /// Whether the job can run by this plan: nothing that it uses is dead, and the plain switches of its tree forward
    /// along it. `topology` is the one that the plan was made for.
    pub fn works(&self, topology: &Topology, state: &FabricState) -> bool {
        !self.is_hit(state)
            && (self.switches.iter().all(|role| role.programmable) || {
                let forwarding = state.forwarding(topology);
                self.workers.iter().all(|worker| self.is_forwarded(worker, topology, &forwarding))
            })
    }

    /// Whether something that the job uses is dead, or does not carry its packets.
    fn is_hit(&self, state: &FabricState) -> bool {
        let workers = self.workers.iter().map(|worker| worker.key);
        let switches = self.switches.iter().map(|switch| switch.key);
        let mut nodes = workers.chain(switches).chain([self.server.key]);
        let mut links = self.traffic.links.iter().map(|link| link.direction.link);
        nodes.any(|node| state.dead_nodes.contains(&node))
            || links.any(|link| state.dead_links.contains(&link) || state.loses(link, self.width))
    }

    /// Whether every plain switch on a worker's way takes its frames along it.
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
