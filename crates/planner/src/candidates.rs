//! Proposes trees that may be good.
//!
//! A tree that merges gradients early is a Steiner tree, and finding the best one is NP-hard; so several heuristics
//! propose trees, and `search` counts the bytes of each:
//!
//! 1. the tree that ordinary frames take, which plain switches can serve, too;
//! 2. workers joined one by one to the existing tree, the nearest first (Takahashi and Matsuyama, 1980);
//! 3. the same without links that are slower than the slowest link that the best tree needs (`widest`);
//! 4. for each of some switches, the shortest ways from all workers to it and from it to the server, as if all
//!    gradients met there.
//!
//! If none of these works, because plain switches do not forward along short ways, workers are joined one by one by
//! ways that such switches take (`plain`).
//!
//! Lengths are the time that a byte takes, so loaded links are long. If some switches have no slots for the job, 2 to
//! 4 also propose trees that avoid them.
//!
//! In a small fabric the gradients may meet at any switch. In a large one most switches are far from where they would
//! meet, or no better than another, so only those nearest to all members are tried. `search` goes on to more of them
//! until it has found a tree that is about as fast as any can be.

use std::iter::once_with;
use std::ops::Range;

use tributary_topology::NodeKey;

use crate::edges::{Distances, Edges};
use crate::fabric::Fabric;
use crate::grow::{Links, Members};
use crate::request::{Aggregation, JobRequest};
use crate::tree::Tree;
use crate::widest::Pace;

/// Numbers of switches that are tried as meeting points. The second number is tried only if the first
/// gives no tree that is about as fast as any tree can be. Each switch costs a search of the whole fabric.
pub(crate) const MEETING_POINTS: [usize; 2] = [32, 128];
/// Number of the workers' switches that are used to measure how near a switch is to all of them.
const SAMPLE: usize = 16;

/// The edges of a fabric, for jobs with one window.
pub(crate) struct Terrain<'a> {
    pub(crate) fabric: &'a Fabric<'a>,
    pub(crate) edges: Edges,
    /// The same with the cost of a detour at switches that have no slots for the job;
    /// `None` if all have slots.
    around: Option<Edges>,
    pace: Pace<'a>,
    window: u32,
    meeting_points: [usize; 2],
}

impl<'a> Terrain<'a> {
    pub(crate) fn new(fabric: &'a Fabric<'a>, job: &JobRequest) -> Self {
        Self::with(fabric, job, MEETING_POINTS)
    }

    /// The same with other numbers of meeting points.
    pub(crate) fn with(fabric: &'a Fabric<'a>, job: &JobRequest, meeting_points: [usize; 2]) -> Self {
        let edges = Edges::of(fabric);
        let aggregates = job.aggregation != Aggregation::None;
        let around = aggregates.then(|| edges.around(fabric, job.window)).flatten();
        Self { fabric, edges, around, pace: Pace::new(fabric, job), window: job.window, meeting_points }
    }

    /// The edges, with either cost, that trees are proposed on.
    pub(crate) fn edge_sets(&self) -> impl Iterator<Item = &Edges> {
        std::iter::once(&self.edges).chain(&self.around)
    }

    /// Proposes trees for the members of a job, in a fixed order and lazily; none if a worker
    /// cannot reach the server.
    pub(crate) fn candidates<'t>(&'t self, members: &'t Members<'t>) -> impl Iterator<Item = Tree> + 't {
        let none = || Links::none(self.fabric);
        let grown = self.edge_sets().map(move |edges| members.nearest_first(edges, &none(), |_| true));
        let fast = once_with(move || self.fast_links(members)).flatten();
        let fast = fast.flat_map(move |fast| {
            let over = |edges| members.nearest_first(edges, &none(), |link| fast.contain(link));
            self.edge_sets().map(over).collect::<Vec<_>>()
        });
        let proposed = once_with(|| members.ordinary(&self.edges)).chain(grown).chain(fast).flatten();
        let [first, _] = self.meeting_points;
        proposed.filter(|tree| tree.fits_plain_switches(self.fabric)).chain(self.meeting(members, 0..first))
    }

    /// Proposes more trees, on which gradients meet at switches that are farther from the members.
    pub(crate) fn more_candidates<'t>(&'t self, members: &'t Members<'t>) -> impl Iterator<Item = Tree> + 't {
        let [first, most] = self.meeting_points;
        self.meeting(members, first..most)
    }

    /// Trees on which gradients meet at one switch. `places`: which switches are tried, ranked by distance.
    fn meeting<'t>(
        &'t self,
        members: &'t Members<'t>,
        places: Range<usize>,
    ) -> impl Iterator<Item = Tree> + 't {
        let points = once_with(move || self.meeting_points(members, places)).flatten();
        let met = points.flat_map(move |switch| {
            self.edge_sets().filter_map(move |edges| members.meeting_at(edges, switch))
        });
        met.filter(|tree| tree.fits_plain_switches(self.fabric))
    }

    /// The least time that any tree can take, in seconds.
    pub(crate) fn least(&self, members: &Members<'_>) -> f64 {
        self.pace.least(&self.edges, members, |_| true)
    }

    /// The links that are fast enough for the best tree: one set over all switches and, if some switches
    /// have no slots, one over the others. A set is omitted if its links give no tree.
    fn fast_links(&self, members: &Members<'_>) -> Vec<Links> {
        let within = |may_pass: &dyn Fn(NodeKey) -> bool| {
            let least = self.pace.least(&self.edges, members, may_pass);
            least.is_finite().then(|| self.pace.within(least, &self.edges, may_pass))
        };
        let has_slots = |switch| self.fabric.has_slots(switch, self.window) || members.need(switch);
        let round_full = self.around.as_ref().and_then(|_| within(&has_slots));
        within(&|_| true).into_iter().chain(round_full).collect()
    }

    /// The switches at these `places` in the ranking of meeting points, in the topology's order.
    fn meeting_points(&self, members: &Members<'_>, places: Range<usize>) -> Vec<NodeKey> {
        let switches = self.fabric.topology.switches().map(|(switch, ..)| switch);
        let mut switches: Vec<_> = switches.filter(|&switch| self.fabric.is_live(switch)).collect();
        // If all of them are tried anyway, no ranking is needed.
        if switches.len() > self.meeting_points[0] {
            let from = members.sample(SAMPLE).chain([members.top()]);
            let distances: Vec<Distances> =
                from.map(|switch| self.edges.distances(switch, |_| true)).collect();
            let far = |switch| distances.iter().fold(0u64, |sum, far| sum.saturating_add(far.to(switch)));
            let rank = |&switch: &NodeKey| (!self.fabric.has_slots(switch, self.window), far(switch), switch);
            switches.sort_by_cached_key(rank);
        }
        let places = places.start.min(switches.len())..places.end.min(switches.len());
        let mut points = switches[places].to_vec();
        points.sort_unstable();
        points
    }
}
