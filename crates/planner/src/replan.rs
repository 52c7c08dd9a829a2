//! Plans a job again after it has lost a part of its tree. The rest of the tree stays.

use tributary_topology::Topology;

use crate::candidates::Terrain;
use crate::error::PlanError;
use crate::fabric::{Fabric, FabricState};
use crate::grow::{Links, Members};
use crate::plan::Plan;
use crate::request::JobRequest;
use crate::search::{Judge, SearchResult, search_on, validate};

/// A repaired tree is good enough if it takes at most this number of times the least time of any tree.
/// The factor matches the threshold of [`crate::is_better`], so no tree that a search could find would be clearly
/// better.
const GOOD_ENOUGH: f64 = 1.25;

/// Plans again a job that runs by the plan `old`.
/// It is for a job that has lost switches, links or workers, or has other members or another server than before.
///
/// The parts of the old tree that are alive and connected to the server stay. Only the parts that have lost their path
/// are joined to it again. If the result may be more than 1.25 times as slow as the best tree, this function does a
/// full search like [`plan`](crate::plan), with the repaired tree as one more candidate. So its busiest link never
/// takes more than 1.25 times the time of a fresh plan.
///
/// `old` is a plan on this topology, or on a topology from which this one has [evolved](Topology::evolve). The same
/// input always gives the same plan.
///
/// # Errors
/// [`PlanError`], as for [`plan`](crate::plan).
pub fn replan(
    topology: &Topology,
    state: &FabricState,
    job: &JobRequest,
    old: &Plan,
) -> Result<Plan, PlanError> {
    validate(topology, job)?;
    let fabric = Fabric::new(topology, state, job.width);
    let terrain = Terrain::new(&fabric, job);
    repaired(&terrain, job, old)?.into_plan(&fabric, job)
}

pub(crate) fn repaired(
    terrain: &Terrain<'_>,
    job: &JobRequest,
    old: &Plan,
) -> Result<SearchResult, PlanError> {
    let fabric = terrain.fabric;
    let mut judge = Judge::new(fabric, job);
    if let Some(members) = Members::new(fabric, job.hosts(), job.server) {
        let kept = Links::of(fabric, old.switches.iter().map(|role| role.up.link));
        let grown = terrain.edge_sets().filter_map(|edges| members.nearest_first(edges, &kept, |_| true));
        grown.filter(|tree| tree.fits_plain_switches(fabric)).for_each(|tree| judge.look_at(tree));
        if judge.has_within(GOOD_ENOUGH * terrain.least(&members)) {
            // A plain parameter server is usually fastest with the shortest paths.
            let shortest = members.meeting_at(&terrain.edges, members.top());
            let shortest = shortest.filter(|tree| tree.fits_plain_switches(fabric));
            shortest.into_iter().for_each(|tree| judge.look_at(tree));
            return judge.found();
        }
    }
    search_on(terrain, judge)
}
