//! Tests of plans on random topologies: packets are walked through their tables.

use proptest::prelude::*;
use proptest::sample::Index;
use tributary_planner::{Downlink, FabricState, JobRequest, PlanError, plan};
use tributary_testkit::topologies::topologies;
use tributary_topology::Topology;

use crate::network::{variants, walk};

/// Returns jobs of 1,024 bytes with every combination of aggregation and downlink.
fn jobs(topology: &Topology) -> Vec<JobRequest> {
    variants(&JobRequest::of(topology, 64, 1024).unwrap())
}

/// Returns such jobs with a worker as the server.
fn jobs_that_a_worker_serves(topology: &Topology, server: Index) -> Vec<JobRequest> {
    let job = JobRequest::of(topology, 64, 1024).unwrap();
    let server = server.get(&job.workers).host;
    variants(&JobRequest { server, ..job })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_find_their_way_through_the_tables(topology in topologies()) {
        let state = FabricState::of(&topology, 4096);
        for job in jobs(&topology) {
            match plan(&topology, &state, &job) {
                Ok(plan) => walk(&topology, &plan),
                Err(PlanError::TooDeep { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_worker_may_be_the_server(topology in topologies(), server in any::<Index>()) {
        let state = FabricState::of(&topology, 4096);
        for job in jobs_that_a_worker_serves(&topology, server) {
            match plan(&topology, &state, &job) {
                Ok(plan) => walk(&topology, &plan),
                Err(PlanError::WorkerServesBehindPlainSwitch { switch, .. }) => {
                    let plain = topology[topology.find(&switch).unwrap()].switch().unwrap();
                    prop_assert!(!plain.programmable);
                }
                Err(PlanError::TooDeep { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_plan_is_deterministic(topology in topologies()) {
        let state = FabricState::of(&topology, 4096);
        let job = &jobs(&topology)[0];
        prop_assert_eq!(plan(&topology, &state, job), plan(&topology, &state.clone(), job));
    }

    #[test]
    fn aggregation_never_costs_time(topology in topologies()) {
        let state = FabricState::of(&topology, 4096);
        let seconds: Vec<_> = jobs(&topology)
            .iter()
            .filter(|job| job.downlink == Downlink::Unicast)
            .filter_map(|job| Some(plan(&topology, &state, job).ok()?.traffic.seconds))
            .collect();
        prop_assert!(seconds.is_sorted(), "tree, two levels, leaf, none: {:?}", seconds);
    }

    #[test]
    fn whatever_is_dead_is_avoided_or_refused(
        topology in topologies(),
        dead in prop::collection::vec(any::<Index>(), 1..4),
    ) {
        let mut state = FabricState::of(&topology, 4096);
        let job = &jobs(&topology)[0];
        let link = |which: Index| topology.links().nth(which.index(topology.links().count())).unwrap().0;
        for (n, dead) in dead.into_iter().enumerate() {
            match n % 3 {
                0 => drop(state.dead_links.insert(link(dead))),
                1 => drop(state.dead_nodes.insert(topology.switches().nth(dead.index(topology.switches().count())).unwrap().0)),
                _ => drop(state.short_of_mtu.insert(link(dead), job.width)),
            }
        }
        match plan(&topology, &state, job) {
            Ok(plan) => {
                let is_lost = |link| state.dead_links.contains(&link) || state.short_of_mtu.contains_key(&link);
                prop_assert!(!plan.traffic.links.iter().any(|one| is_lost(one.direction.link)));
                prop_assert!(plan.works(&topology, &state));
                prop_assert!(plan.switches.iter().all(|s| !state.dead_nodes.contains(&s.key)));
                walk(&topology, &plan);
            }
            Err(PlanError::Unreachable { .. } | PlanError::ShortOfMtu { .. } | PlanError::TooDeep { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
