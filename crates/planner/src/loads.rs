//! A job's own load on the links, subtracted from measured loads or added to them.
//!
//! The loads in a [`FabricState`] are measured, so they include a running job's own traffic. That must not count
//! against the tree that the job is on, or every job would flee from itself; and when several jobs are planned one
//! after another, each has to see the others where they will be.
//!
//! How many all-reduces a second a job makes is not measured; it follows from the loads. With b(d) the bytes of one
//! all-reduce on the link direction d, r = load(d) / 8 b(d) wherever only the job uses d, as on the workers' own
//! links above all; the quotient is larger where others use d, too, and smaller only where a load is out of date. So
//! r is taken to be the lower quartile of the quotient over those d of the job's tree that carry anything.

use crate::fabric::FabricState;
use crate::plan::Plan;

impl FabricState {
    /// The state with the loads less what the job of this plan causes itself, on which to make a new plan
    /// for the running job.
    pub fn without(&self, plan: &Plan) -> Self {
        let mut state = self.clone();
        let rate = self.all_reduces_per_second(plan);
        for link in &plan.traffic.links {
            let load = state.load.entry(link.direction).or_default();
            *load = load.saturating_sub(bits(rate, link.bytes));
        }
        state
    }

    /// The state with the loads as they will be once a job has moved from one plan to another, on which to
    /// plan the next job before anything is measured.
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

/// The load, in bit/s, of `rate` all-reduces a second that each put `bytes` on a link.
fn bits(rate: f64, bytes: u64) -> u64 {
    (rate * 8.0 * bytes as f64) as u64
}
