//! Tests of plans for jobs that have lost a part of their tree, compared with fresh plans.

use proptest::prelude::*;
use proptest::sample::Index;
use tributary_planner::{FabricState, JobRequest, Plan, PlanError, plan, replan};
use tributary_testkit::topologies::topologies;
use tributary_topology::{FatTree, NodeKey, Topology};

use crate::network::{variants, walk};

/// Kills a switch, a link or a worker's host.
fn dies(topology: &Topology, state: &mut FabricState, job: &mut JobRequest, (kind, which): (u8, Index)) {
    match kind {
        0 => drop(
            state
                .dead_nodes
                .insert(topology.switches().nth(which.index(topology.switches().count())).unwrap().0),
        ),
        1 => drop(
            state.dead_links.insert(topology.links().nth(which.index(topology.links().count())).unwrap().0),
        ),
        _ => {
            let member = *which.get(&job.workers);
            if job.workers.len() > 1 {
                state.dead_nodes.insert(member.host);
                job.workers.retain(|one| *one != member);
            }
        }
    }
}

/// Checks that a repaired plan works, is deterministic, and is at most 1.25
/// times as slow as a new plan.
fn judge(topology: &Topology, state: &FabricState, job: &JobRequest, old: &Plan) -> Option<Plan> {
    let repaired = replan(topology, state, job, old);
    assert_eq!(repaired, replan(topology, &state.clone(), job, old));
    match (plan(topology, state, job), repaired) {
        (Ok(fresh), Ok(repaired)) => {
            let (fresh, ours) = (fresh.traffic.seconds, repaired.traffic.seconds);
            assert!(ours <= 1.25 * fresh, "{ours} s, and afresh {fresh} s");
            assert!(repaired.works(topology, state));
            walk(topology, &repaired);
            Some(repaired)
        }
        (
            Err(
                PlanError::Unreachable { .. } | PlanError::TooDeep { .. } | PlanError::TooManyChildren { .. },
            ),
            Err(_),
        ) => None,
        (fresh, repaired) => panic!("afresh {fresh:?}, repaired {repaired:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_mended_plan_is_nearly_as_good_as_a_fresh_one(
        topology in topologies(),
        dead in prop::collection::vec((0u8..3, any::<Index>()), 1..4),
    ) {
        let mut state = FabricState::of(&topology, 4096);
        let mut job = JobRequest::of(&topology, 64, 1024).unwrap();
        let Ok(mut old) = plan(&topology, &state, &job) else { return Ok(()) };
        // One failure after the other: each repair starts from the last repaired plan.
        for one in dead {
            dies(&topology, &mut state, &mut job, one);
            match judge(&topology, &state, &job, &old) {
                Some(repaired) => old = repaired,
                None => break,
            }
        }
    }

    #[test]
    fn another_server_takes_over_what_is_left(topology in topologies(), server in any::<Index>()) {
        let state = FabricState::of(&topology, 4096);
        let job = JobRequest::of(&topology, 64, 1024).unwrap();
        let Ok(old) = plan(&topology, &state, &job) else { return Ok(()) };
        let server = server.get(&job.workers).host;
        let first = topology.neighbours(server)[0].node;
        if topology[first].switch().unwrap().programmable {
            for job in variants(&JobRequest { server, ..job }) {
                judge(&topology, &state, &job, &old);
            }
        }
    }
}

/// Returns the switches of the new plan whose next link differs from the old plan's, or that the old
/// plan lacks.
fn changed(old: &Plan, new: &Plan) -> Vec<String> {
    let kept = |key: NodeKey, link| old.switches.iter().any(|role| role.key == key && role.up.link == link);
    let new = new.switches.iter().filter(|role| !kept(role.key, role.up.link));
    new.map(|role| role.name.clone()).collect()
}

#[test]
fn what_a_failure_does_not_touch_stays() {
    let topology =
        Topology::parse(&FatTree::new(8, 100).unwrap().to_toml("10 Gbit/s"), "fat-tree.toml").unwrap();
    let mut state = FabricState::of(&topology, 4096);
    let job = JobRequest::of(&topology, 64, 1 << 20).unwrap();
    let old = plan(&topology, &state, &job).unwrap();
    let is_above = |role: &&tributary_planner::SwitchRole| {
        role.name.starts_with("agg") && !role.name.starts_with("agg0-")
    };
    let dead = old.switches.iter().find(is_above).unwrap();
    let below = dead.down.len();
    state.dead_nodes.insert(dead.key);
    let new = judge(&topology, &state, &job, &old).unwrap();
    // The edge switches of its pod continue through another aggregation switch, which needs its own path to the server.
    let changed = changed(&old, &new);
    assert!((below + 1..=below + 3).contains(&changed.len()), "{changed:?}");
    let pod = dead.name.trim_start_matches("agg").split('-').next().unwrap();
    let of_pod = changed.iter().filter(|name| name.starts_with(&format!("edge{pod}-"))).count();
    assert_eq!(of_pod, below);
}
