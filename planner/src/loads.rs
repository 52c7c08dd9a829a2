//! What a job itself puts on the links, taken off measured loads or added to them.
//!
//! The loads in a [`FabricState`] are measured, so a running job's own traffic is among them. It must not count
//! against the tree that the job is on, or every job would flee from itself; and where several jobs are planned
//! one after another, each has to see the others where they will be.
//!
//! How many all-reduces a second a job makes is not measured. It follows from the loads: with b(d) the bytes of
//! one all-reduce on the link direction d, r = load(d) / 8 b(d) wherever only the job uses d, as it does the
//! workers' own links above all, and less than that nowhere but where a load is not up to date. So r is taken to
//! be the lower quartile of that quotient over those d of the job's tree that carry anything.

use crate::fabric::FabricState;
use crate::plan::Plan;

impl FabricState {
    /// The same with the loads less what the job of this plan causes itself: what a new plan of a running job is
    /// to be made on.
    pub fn without(&self, plan: &Plan) -> Self {
        let mut state = self.clone();
        let rate = self.all_reduces_per_second(plan);
        for link in &plan.traffic.links {
            let load = state.load.entry(link.direction).or_default();
            *load = load.saturating_sub(bits(rate, link.bytes));
        }
        state
    }

    /// The same with the loads as they will be when a job has moved from one plan to another: what the next job
    /// is to be planned on, before anything is measured.
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

/// The load, in bit/s, of so many all-reduces a second that each put so many bytes on a link.
fn bits(rate: f64, bytes: u64) -> u64 {
    (rate * 8.0 * bytes as f64) as u64
}
