//! Proposes trees that may be good.
//!
//! A tree that merges gradients early is a Steiner tree, and finding the best one is NP-hard; so several heuristics
//! propose trees, and `search` counts the bytes of each:
//!
//! 1. the tree that ordinary frames take, which also suits plain switches;
//! 2. a tree that grows by one worker at a time, the nearest first (Takahashi and Matsuyama, 1980);
//! 3. a tree that grows like in 2, but only over links that are fast enough for the best tree (`widest`);
//! 4. for each of some switches, the shortest paths from all workers to it and from it to the server, as if all
//!    gradients met there.
//!
//! If none of these works, because plain switches do not forward along short paths, workers are joined one by one along
//! paths that plain switches take (`plain`).
//!
//! The length of a link is the time that a byte takes, so loaded links are long. If some switches have no slots for the
//! job, heuristics 2 to 4 also propose trees that avoid these switches.
//!
//! In a small fabric, every switch is tried as the meeting point of the gradients. In a large fabric, most switches are
//! far from the members, or not better than others, so only the switches nearest to all members are tried. `search`
//! tries more of them until it has found a tree that is about as fast as any tree can be.

use std::iter::once_with;
use std::ops::Range;

use tributary_topology::NodeKey;

use crate::edges::{Distances, Edges};
use crate::fabric::Fabric;
use crate::grow::{Links, Members};
use crate::request::{Aggregation, JobRequest};
use crate::tree::Tree;
use crate::widest::Pace;

/// The numbers of switches that are tried as meeting points.
/// The second number is tried only if the first gives no tree that is about as fast as any tree can be. Each switch
/// costs a search of the whole fabric.
pub(crate) const MEETING_POINTS: [usize; 2] = [32, 128];
/// The number of the workers' switches from which the distance to a meeting point is measured.
const SAMPLE: usize = 16;

/// The edges of a fabric, for jobs with one window.
pub(crate) struct Terrain<'a> {
    pub(crate) fabric: &'a Fabric<'a>,
    pub(crate) edges: Edges,
    /// The edges with a higher cost at switches that have no slots for the job; `None` if all switches have
    /// slots.
    around: Option<Edges>,
    pace: Pace<'a>,
    window: u32,
    meeting_points: [usize; 2],
}

impl<'a> Terrain<'a> {
    pub(crate) fn new(fabric: &'a Fabric<'a>, job: &JobRequest) -> Self {
        Self::with(fabric, job, MEETING_POINTS)
    }

    /// Makes the terrain for these numbers of meeting points.
    pub(crate) fn with(fabric: &'a Fabric<'a>, job: &JobRequest, meeting_points: [usize; 2]) -> Self {
        let edges = Edges::of(fabric);
        let aggregates = job.aggregation != Aggregation::None;
        let around = aggregates.then(|| edges.around(fabric, job.window)).flatten();
        Self { fabric, edges, around, pace: Pace::new(fabric, job), window: job.window, meeting_points }
    }

    /// Returns the sets of edges on which trees are proposed:
    /// with and without the higher cost of switches without slots.
    pub(crate) fn edge_sets(&self) -> impl Iterator<Item = &Edges> {
        std::iter::once(&self.edges).chain(&self.around)
    }

    /// Proposes trees for the members of a job, in a fixed order and lazily.
    /// It proposes none if a worker cannot reach the server.
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

    /// Proposes more trees, on which gradients meet at switches farther from the members.
    pub(crate) fn more_candidates<'t>(&'t self, members: &'t Members<'t>) -> impl Iterator<Item = Tree> + 't {
        let [first, most] = self.meeting_points;
        self.meeting(members, first..most)
    }

    /// Proposes trees on which gradients meet at one switch.
    /// `places` selects the switches to try, in their ranking by distance.
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

    /// Returns a lower bound of the time of any tree, in seconds.
    pub(crate) fn least(&self, members: &Members<'_>) -> f64 {
        self.pace.least(&self.edges, members, |_| true)
    }

    /// Returns sets of links that are fast enough for the best tree.
    /// One set is over all switches. If some switches have no slots, another set is over the other switches. A set is
    /// omitted if its links give no tree.
    fn fast_links(&self, members: &Members<'_>) -> Vec<Links> {
        let within = |may_pass: &dyn Fn(NodeKey) -> bool| {
            let least = self.pace.least(&self.edges, members, may_pass);
            least.is_finite().then(|| self.pace.within(least, &self.edges, may_pass))
        };
        let has_slots = |switch| self.fabric.has_slots(switch, self.window) || members.need(switch);
        let round_full = self.around.as_ref().and_then(|_| within(&has_slots));
        within(&|_| true).into_iter().chain(round_full).collect()
    }

    /// Returns the switches at these `places` in the ranking of meeting points, in the topology's order.
    fn meeting_points(&self, members: &Members<'_>, places: Range<usize>) -> Vec<NodeKey> {
        let switches = self.fabric.topology.switches().map(|(switch, ..)| switch);
        let mut switches: Vec<_> = switches.filter(|&switch| self.fabric.is_live(switch)).collect();
        // If all switches are tried anyway, no ranking is needed.
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
