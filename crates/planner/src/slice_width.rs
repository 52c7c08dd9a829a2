//! The width of a job's slices.

use tributary_topology::{Link, Topology};
use tributary_wire::SliceWidth;

use crate::fabric::FabricState;
use crate::request::JobRequest;
use crate::search::plan;

/// A tree over links that carry wider slices may take this number of times the time of a tree over any
/// links.
/// It carries about the same bytes, but an eighth of the frames means an eighth of the work for hosts and switches.
const WORTH_IT: f64 = 1.25;

impl JobRequest {
    /// Returns the job with the widest slices, up to `most`, that some tree can carry while everything is
    /// alive.
    /// Slices wider than every link carries are only taken if the tree is at most 1.25 times as slow.
    #[must_use]
    pub fn with_widest_slices(self, topology: &Topology, most: SliceWidth) -> Self {
        let of_width = |width| Self { width, ..self.clone() };
        let all_carry = SliceWidth::widest_within(topology.mtu().into()).unwrap_or(SliceWidth::NARROWEST);
        let most = most.min(widest_slices(topology));
        let narrow = of_width(most.min(all_carry));
        // In most topologies, all links carry the same width, and there is nothing to try.
        let wider = SliceWidth::all().rev().filter(|width| *width > all_carry && *width <= most);
        let mut wider = wider.map(of_width).peekable();
        if wider.peek().is_none() {
            return narrow;
        }
        let state = FabricState::of(topology, u32::MAX);
        let seconds = |job: &Self| plan(topology, &state, job).map(|plan| plan.comparison.tree_seconds);
        let Ok(least) = seconds(&narrow) else { return narrow };
        let is_worth_it = |job: &Self| seconds(job).is_ok_and(|seconds| seconds <= least * WORTH_IT);
        wider.find(is_worth_it).unwrap_or(narrow)
    }
}

/// Returns the widest slices that at least one link of a topology carries.
pub fn widest_slices(topology: &Topology) -> SliceWidth {
    topology.links().map(|(_, link)| widest_slices_over(link)).max().unwrap_or(SliceWidth::NARROWEST)
}

/// Returns the widest slices that a link carries, by its `mtu`.
pub fn widest_slices_over(link: &Link) -> SliceWidth {
    // Every link carries the narrowest slices.
    SliceWidth::widest_within(link.mtu.into()).unwrap_or(SliceWidth::NARROWEST)
}
