//! A job's own load on the links, subtracted from measured loads or added to them.
//!
//! The loads in a [`FabricState`] are measured, so they include the traffic of a running job. This traffic must not
//! count against the job's present tree, or every job would move away from itself. If several jobs are planned one
//! after another, each plan must use the loads that the others will have.
//!
//! The number of all-reduces per second of a job is not measured. It is estimated from the loads. Let b(d) be the bytes
//! of one all-reduce on the link direction d. If only the job uses d, as on the workers' own links, the rate is r =
//! load(d) / 8 b(d). The quotient is larger if others use d, too, and smaller only if a load is out of date. So the
//! estimate of r is the lower quartile of the quotient over the directions d of the job's tree that have a load.

use crate::fabric::FabricState;
use crate::plan::Plan;

impl FabricState {
    /// Returns the state with the loads minus the job's own load by this plan.
    /// A new plan for the running job should use this state.
    pub fn without(&self, plan: &Plan) -> Self {
        let mut state = self.clone();
        let rate = self.all_reduces_per_second(plan);
        for link in &plan.traffic.links {
            let load = state.load.entry(link.direction).or_default();
            *load = load.saturating_sub(bits(rate, link.bytes));
        }
        state
    }

    /// Returns the state with the expected loads after a job has changed from plan `old` to plan `new`.
    /// The plan for the next job can use this state before the loads are measured again.
    pub fn moved(&self, old: &Plan, new: &Plan) -> Self {
        let mut state = self.without(old);
        let rate = self.all_reduces_per_second(old);
        for link in &new.traffic.links {
            let load = state.load.entry(link.direction).or_default();
            *load = load.saturating_add(bits(rate, link.bytes));
        }
        state
    }

    fn all_reduces_per_second(&self, plan: &Plan) -> f64 {
        let load =
            |link: &crate::LinkTraffic| self.load.get(&link.direction).copied().filter(|load| *load > 0);
        let links = plan.traffic.links.iter();
        let mut rates: Vec<_> =
            links.filter_map(|link| Some(load(link)? as f64 / (8.0 * link.bytes.max(1) as f64))).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() / 4).copied().unwrap_or_default()
    }
}

/// Returns the load, in bit/s, of `rate` all-reduces per second that each put `bytes` on a link.
fn bits(rate: f64, bytes: u64) -> u64 {
    (rate * 8.0 * bytes as f64) as u64
}
