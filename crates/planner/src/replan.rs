//! Plans a job again that has lost something: what is left of its tree stays, and the
//! rest is joined to it.

use tributary_topology::Topology;

use crate::candidates::Terrain;
use crate::error::PlanError;
use crate::fabric::{Fabric, FabricState};
use crate::grow::{Links, Members};
use crate::plan::Plan;
use crate::request::JobRequest;
use crate::search::{Judge, SearchResult, search_on, validate};

/// A repaired tree is good enough if it takes at most this many times the least time
/// that any tree can take. The factor matches the threshold of [`crate::is_better`]: no tree that a search could find
/// would be clearly better.
const GOOD_ENOUGH: f64 = 1.25;

/// Plans a job again that ran by `old`, after some of its switches, links or workers have died, members
/// have left or come in, or the server has changed.
///
/// Whatever of the old tree is alive and still connected to the server stays as it is; only what has lost its way is
/// joined to it again. If the result may be more than 1.25 times as slow as the best tree, this is
/// [`plan`](crate::plan) with the rest of the old tree as one more candidate. So its busiest link never takes more
/// than 1.25 times as long as that of a fresh plan.
///
/// `old` is a plan on this topology, or on one that this has [evolved](Topology::evolve) from. The same input always
/// gives the same plan.
///
/// # Errors
/// As [`plan`](crate::plan).
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
            // A plain server mostly does best with the shortest ways.
            let shortest = members.meeting_at(&terrain.edges, members.top());
            let shortest = shortest.filter(|tree| tree.fits_plain_switches(fabric));
            shortest.into_iter().for_each(|tree| judge.look_at(tree));
            return judge.found();
        }
    }
    search_on(terrain, judge)
}
