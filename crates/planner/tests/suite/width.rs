//! Tests on links of different MTUs: the width of a job's slices, and the links of its tree.

use tributary_planner::{FabricState, JobRequest, Plan, PlanError, plan, reachable, replan};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::SliceWidth;

/// Makes two leaves with a worker each, below two spines. The server is at the first leaf.
/// `wide` and `narrow` are the attributes of the two spines' links. `worker` has the attributes of the second worker's
/// link.
fn two_spines(wide: &str, narrow: &str, worker: &str) -> Topology {
    let text = format!(
        "name = 'two-spines'
        defaults = {{ rate = '1 Gbit/s', mtu = 9000 }}
        switch = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'wide' }}, {{ name = 'narrow' }}]
        host = [{{ name = 'ps', role = 'server' }}, {{ name = 'w0', role = 'worker' }}, {{ name = 'w1', role = 'worker' }}]
        link = [{{ ends = ['a', 'ps'] }}, {{ ends = ['a', 'w0'] }}, {{ ends = ['b', 'w1'] {worker} }},
                {{ ends = ['a', 'narrow'] {narrow} }}, {{ ends = ['b', 'narrow'] {narrow} }},
                {{ ends = ['a', 'wide'] {wide} }}, {{ ends = ['b', 'wide'] {wide} }}]"
    );
    Topology::parse(&text, "two-spines.toml").unwrap()
}

/// Returns the job of the whole topology, and its plan.
fn planned(topology: &Topology) -> (JobRequest, Plan) {
    let job = JobRequest::of(topology, 64, 1 << 20).unwrap();
    let plan = plan(topology, &FabricState::of(topology, 4096), &job).unwrap();
    (job, plan)
}

fn key(topology: &Topology, name: &str) -> NodeKey {
    topology.find(name).unwrap()
}

fn passes(plan: &Plan, switch: &str) -> bool {
    plan.switches.iter().any(|role| role.name == switch)
}

#[test]
fn a_tree_leads_round_links_that_are_too_narrow_for_its_slices() {
    // The narrow links would be slightly faster.
    let topology = two_spines(", rate = '900 Mbit/s'", ", mtu = 1500", "");
    let (_, plan) = planned(&topology);
    assert_eq!(plan.width, SliceWidth::WIDEST);
    assert!(passes(&plan, "wide") && !passes(&plan, "narrow"));
}

#[test]
fn wide_slices_are_not_worth_a_slow_tree() {
    let topology = two_spines(", rate = '100 Mbit/s'", ", mtu = 1500", "");
    let (_, plan) = planned(&topology);
    assert_eq!(plan.width, SliceWidth::ETHERNET);
    assert!(passes(&plan, "narrow"));
}

#[test]
fn a_members_own_link_bounds_the_width_and_so_does_the_program() {
    let topology = two_spines("", ", mtu = 1500", ", mtu = 4300");
    let (job, plan) = planned(&topology);
    assert_eq!(plan.width.values(), 1024);
    assert!(passes(&plan, "wide"));
    let of_program = |most| job.clone().with_widest_slices(&topology, most).width;
    assert_eq!(of_program(SliceWidth::WIDEST).values(), 1024);
    assert_eq!(of_program(SliceWidth::NARROWEST), SliceWidth::NARROWEST);
}

/// A job keeps its width. If only narrower links remain, it has no tree, and the error names a link.
#[test]
fn a_job_that_is_left_with_links_that_are_too_narrow_is_told_which() {
    let topology = two_spines("", ", mtu = 1500", "");
    let (job, old) = planned(&topology);
    let dead_nodes = [key(&topology, "wide")].into();
    let state = FabricState { dead_nodes, ..FabricState::of(&topology, 4096) };
    let error = replan(&topology, &state, &job, &old).unwrap_err();
    let PlanError::TooNarrow { worker, server, mtu, width, ends } = &error else { panic!("{error}") };
    assert_eq!((worker.as_str(), server.as_str()), ("w1", "ps"));
    assert_eq!((*mtu, *width), (1500, SliceWidth::WIDEST));
    assert!(ends.contains(&"narrow".to_owned()), "{error}");
    assert!(error.to_string().contains("packets have up to 8296 bytes"), "{error}");

    let ps = key(&topology, "ps");
    let reaching = |width| reachable(&topology, &state, ps, width).contains(&key(&topology, "w1"));
    assert_eq!([SliceWidth::ETHERNET, SliceWidth::WIDEST].map(reaching), [true, false]);
    // A link that is down does not count as too narrow.
    let dead_nodes = [key(&topology, "wide"), key(&topology, "narrow")].into();
    let state = FabricState { dead_nodes, ..FabricState::of(&topology, 4096) };
    assert!(matches!(plan(&topology, &state, &job), Err(PlanError::Unreachable { .. })));
}
