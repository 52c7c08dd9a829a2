//! Tests of the fluid model against manual results, the planner's bytes, and the packet simulation.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;
use tributary_planner::{FabricState, JobRequest, Member, plan};
use tributary_sim::flow::{
    Assumptions, Background, Compute, Down, FlowError, FlowOutcome, Job, Method, Outage, Setup, Stream,
    max_min, simulate,
};
use tributary_sim::{Scenario, run};
use tributary_topology::{FatTree, NodeKey, Topology};

const WINDOW: u32 = 256;
const GRADIENT: u64 = 64 << 20;
/// Ratio of TCP's frames to their payload.
const TCP: f64 = 1514.0 / 1448.0;
/// Bytes/s of links of 10 Gbit/s.
const RATE: f64 = 1.25e9;

/// Makes a star of workers and two servers on one switch.
fn star(workers: usize) -> Topology {
    let mut text =
        "name = \"star\"\ndefaults = { rate = \"10 Gbit/s\" }\n[[switch]]\nname = \"s\"\n".to_owned();
    let names = (0..workers).map(|n| format!("w{n}")).chain(["ps0".into(), "ps1".into()]);
    for name in names {
        let role = if name.starts_with('w') { "worker" } else { "server" };
        write!(
            text,
            "[[host]]\nname = \"{name}\"\nrole = \"{role}\"\n[[link]]\nends = [\"s\", \"{name}\"]\n"
        )
        .unwrap();
    }
    Topology::parse(&text, "star.toml").unwrap()
}

fn fat_tree(ports: usize, workers: usize) -> Topology {
    Topology::parse(&FatTree::new(ports, workers).unwrap().to_toml("10 Gbit/s"), "fat-tree.toml").unwrap()
}

fn job(topology: &Topology, method: Method) -> Job {
    Job {
        workers: topology.workers(),
        servers: topology.servers(),
        gradient_bytes: GRADIENT,
        compute: Compute { seconds: 0.01, spread: 0.0 },
        method,
        begins: 0.0,
    }
}

/// Makes a setup without latencies.
fn setup(topology: &Topology, jobs: Vec<Job>) -> Setup<'_> {
    let assumptions =
        Assumptions { hop_seconds: 0.0, host_seconds: 0.0, ..Assumptions::with_slots(16 * WINDOW) };
    Setup { topology, assumptions, jobs, iterations: 2, background: None, outages: Vec::new(), seed: 1 }
}

fn outcome(topology: &Topology, method: Method) -> FlowOutcome {
    simulate(&setup(topology, vec![job(topology, method)])).unwrap()
}

fn synchronisation(topology: &Topology, method: Method) -> f64 {
    outcome(topology, method).jobs[0].mean_synchronisation()
}

#[track_caller]
fn assert_near(measured: f64, expected: f64, share: f64) {
    assert!((measured / expected - 1.0).abs() <= share, "{measured} instead of {expected}");
}

#[test]
fn two_streams_share_a_link_and_a_third_takes_what_they_leave() {
    let stream = |uses: &[(usize, f64)], limit| Stream { bytes: 1.0, limit, uses: uses.to_vec() };
    let all = [
        stream(&[(0, 1.0)], f64::INFINITY),
        stream(&[(0, 1.0), (1, 1.0)], f64::INFINITY),
        stream(&[(1, 1.0)], f64::INFINITY),
        stream(&[(2, 3.0)], f64::INFINITY),
        stream(&[(2, 1.0)], 1.0),
    ];
    let rates = max_min(&[10.0, 30.0, 10.0], &all.each_ref());
    assert_eq!(rates, [5.0, 5.0, 25.0, 3.0, 1.0]);
}

#[test]
fn hosts_take_the_times_of_their_formulas() {
    for count in [2, 3, 8, 17] {
        let topology = star(count);
        let (workers, bare) = (count as f64, GRADIENT as f64 * TCP / RATE);
        let measured = |method| synchronisation(&topology, method);
        assert_near(measured(Method::Ring), 2.0 * (workers - 1.0) / workers * bare, 1e-3);
        assert_near(measured(Method::ParameterServer { servers: 1 }), workers * bare, 1e-3);
        assert_near(measured(Method::ParameterServer { servers: 2 }), workers / 2.0 * bare, 1e-3);
        // Each rank sends or receives at most twice the gradient. From three ranks on, some ranks send or
        // receive 2 or 1.5 times the gradient.
        let trees = measured(Method::DoubleTree) / bare;
        assert!((1.0 - 1e-3..2.0 + 1e-3).contains(&trees), "{count}: {trees}");
    }
    assert_near(synchronisation(&star(8), Method::DoubleTree), 2.0 * GRADIENT as f64 * TCP / RATE, 1e-3);
}

#[test]
fn a_tree_takes_one_gradient_whatever_the_workers_and_a_leaf_tree_one_for_each_leaf() {
    for (ports, workers) in [(4, 12), (6, 40), (8, 100)] {
        let topology = fat_tree(ports, workers);
        let request = JobRequest::of(&topology, WINDOW, GRADIENT).unwrap();
        let planned = plan(&topology, &FabricState::of(&topology, 1 << 20), &request).unwrap();
        let measured = synchronisation(&topology, Method::Fabric { window: WINDOW });
        assert_near(measured, planned.traffic.seconds, 1e-3);
        // Headers cost 8 %, and the slices with the bounds 2 %.
        assert_near(measured, GRADIENT as f64 / RATE, 0.15);
        let leaves = synchronisation(&topology, Method::Leaf { window: WINDOW });
        // The switch above the server is one of the leaves.
        assert_near(leaves / measured, (ports * ports / 2 - 1) as f64, 0.03);
    }
}

#[test]
fn each_link_carries_the_bytes_that_the_planner_expects() {
    let topology = fat_tree(6, 40);
    let request = JobRequest::of(&topology, WINDOW, GRADIENT).unwrap();
    let planned = plan(&topology, &FabricState::of(&topology, 4096), &request).unwrap();
    let outcome = outcome(&topology, Method::Fabric { window: WINDOW });
    let mut expected = 0.0;
    for link in &planned.traffic.links {
        assert_near(outcome.carried(link.direction), 2.0 * link.bytes as f64, 1e-9);
        expected += 2.0 * link.bytes as f64;
    }
    let all: f64 = topology
        .links()
        .flat_map(|(link, _)| {
            [0, 1].map(|sender| outcome.carried(tributary_topology::LinkDirection { link, sender }))
        })
        .sum();
    assert_near(all, expected, 1e-9);
}

/// Compares the fluid model with the packet simulation.
///
/// Both have the same tree, links and delays. The packet simulation has queues that hold all packets of the
/// window.
#[test]
fn the_model_agrees_with_the_simulation_of_packets() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/three-tier-8.toml");
    let text = std::fs::read_to_string(file).unwrap();
    for (megabits, window) in [(50, 256), (200, 256), (1000, 256), (1000, 32)] {
        let mut scenario = Scenario { elements: 1 << 20, window, ..Scenario::default() };
        scenario.link.rate = megabits * 1_000_000;
        scenario.link.queue = 4096;
        scenario.host.turn_around = Duration::ZERO;
        let packets = run(&scenario).unwrap().duration.as_secs_f64();

        let text = text.replace("rate = \"50 Mbit/s\"", &format!("rate = \"{megabits} Mbit/s\""));
        let topology = Topology::parse(&text, file).unwrap();
        let method = Method::Fabric { window };
        let mut setup = setup(&topology, vec![Job { gradient_bytes: 4 << 20, ..job(&topology, method) }]);
        // A path of four links has three switches.
        setup.assumptions.hop_seconds = (scenario.link.delay + scenario.switch_delay * 3 / 4).as_secs_f64();
        let fluid = simulate(&setup).unwrap();
        assert_eq!(fluid.jobs[0].is_window_bound, window < 256);
        assert_near(fluid.jobs[0].mean_synchronisation(), packets, 0.03);
    }
}

#[test]
fn a_window_allows_so_many_slices_a_round_trip() {
    let topology = star(4);
    let mut setup = setup(&topology, vec![job(&topology, Method::Fabric { window: 16 })]);
    setup.assumptions.host_seconds = 100e-6;
    let found = simulate(&setup).unwrap();
    let slices = (GRADIENT / 1024 + (GRADIENT / 1024).div_ceil(42)) as f64;
    // Two packets each pass two hosts and two links.
    let round_trip = 400e-6 + 4.0 * 1094.0 / RATE;
    assert_near(found.jobs[0].mean_synchronisation(), slices / 16.0 * round_trip, 1e-3);
    assert!(found.jobs[0].is_window_bound);
    setup.assumptions.host_seconds = 0.0;
    assert!(!simulate(&setup).unwrap().jobs[0].is_window_bound);
}

#[test]
fn a_host_that_handles_half_of_its_link_takes_twice_the_time() {
    let topology = star(5);
    for method in [Method::Ring, Method::ParameterServer { servers: 1 }] {
        let mut setup = setup(&topology, vec![job(&topology, method)]);
        setup.assumptions.host_rate = Some(5_000_000_000);
        let slow = simulate(&setup).unwrap().jobs[0].mean_synchronisation();
        assert_near(slow, 2.0 * synchronisation(&topology, method), 1e-3);
    }
}

/// The jobs are on the same hosts, so that all of them need the same tree.
#[test]
fn a_job_without_slots_passes_switches_and_is_slower() {
    let topology = fat_tree(4, 12);
    let one = job(&topology, Method::Fabric { window: WINDOW });
    let mut setup = setup(&topology, vec![one.clone(), one]);
    let served = simulate(&setup).unwrap();
    assert_eq!(served.jobs[1].passing, 0);
    setup.assumptions.slots = WINDOW;
    let found = simulate(&setup).unwrap();
    let [first, second] = [&found.jobs[0], &found.jobs[1]];
    assert!(first.aggregating > 0 && first.passing == 0, "{first:?}");
    assert!(second.passing > 0 && second.aggregating < first.aggregating, "{second:?}");
    assert!(second.mean_synchronisation() > 1.4 * served.jobs[1].mean_synchronisation());
}

#[test]
fn the_slowest_of_many_workers_is_later_than_of_a_few() {
    let of = |count| {
        let topology = star(count);
        let mut one = job(&topology, Method::Ring);
        one.compute = Compute { seconds: 1.0, spread: 0.5 };
        let mut setup = setup(&topology, vec![one]);
        setup.iterations = 40;
        let found = simulate(&setup).unwrap();
        found.jobs[0].iterations.iter().map(|iteration| iteration.compute).sum::<f64>() / 40.0
    };
    // The mean of the maximum of n uniform numbers is n / (n + 1).
    assert_near(of(2), 1.0 + 0.5 * 2.0 / 3.0, 0.05);
    assert_near(of(40), 1.0 + 0.5 * 40.0 / 41.0, 0.02);
}

/// Returns a core of the planner's tree.
fn core(topology: &Topology) -> NodeKey {
    let request = JobRequest::of(topology, WINDOW, GRADIENT).unwrap();
    let planned = plan(topology, &FabricState::of(topology, 4096), &request).unwrap();
    planned.switches.iter().find(|role| role.name.starts_with("core")).unwrap().key
}

#[test]
fn a_dead_core_costs_a_tree_what_it_takes_to_have_another_one() {
    let topology = fat_tree(4, 12);
    let calm = setup(&topology, vec![job(&topology, Method::Fabric { window: WINDOW })]);
    let mut hit = calm.clone();
    // The core dies in the middle of the first synchronisation.
    hit.outages = vec![Outage { what: Down::Node(core(&topology)), from: 0.03, until: 100.0 }];
    let lost = simulate(&hit).unwrap().jobs[0].seconds() - simulate(&calm).unwrap().jobs[0].seconds();
    assert_near(lost, hit.assumptions.replan_seconds, 0.01);
    hit.outages[0].until = 0.13;
    let lost = simulate(&hit).unwrap().jobs[0].seconds() - simulate(&calm).unwrap().jobs[0].seconds();
    assert_near(lost, 0.1, 0.01);
}

#[test]
fn hosts_take_other_ways_and_a_dead_edge_is_waited_for() {
    let topology = fat_tree(4, 12);
    let calm = setup(&topology, vec![job(&topology, Method::Ring)]);
    let begun = simulate(&calm).unwrap().jobs[0].seconds();
    let cores: Vec<_> = topology.switches().filter(|(_, node, _)| node.name.starts_with("core")).collect();
    let mut hit = calm.clone();
    hit.outages =
        cores[1..].iter().map(|core| Outage { what: Down::Node(core.0), from: 0.03, until: 100.0 }).collect();
    let lost = simulate(&hit).unwrap().jobs[0].seconds() - begun;
    // All traffic that did not use the last core waits for other paths, and then shares the last core.
    assert!((0.2..2.0).contains(&lost), "{lost}");
    let edge = topology.find("edge1-0").unwrap();
    for method in [Method::Ring, Method::Fabric { window: WINDOW }, Method::ParameterServer { servers: 1 }] {
        let mut hit = setup(&topology, vec![job(&topology, method)]);
        let begun = simulate(&hit).unwrap().jobs[0].seconds();
        hit.outages = vec![Outage { what: Down::Node(edge), from: 0.03, until: 3.03 }];
        let lost = simulate(&hit).unwrap().jobs[0].seconds() - begun;
        assert!((2.0..3.01).contains(&lost), "{method:?}: {lost}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let topology = fat_tree(14, 600);
    let refused = |change: &dyn Fn(&mut Setup<'_>)| {
        let mut setup = setup(&topology, vec![job(&topology, Method::Leaf { window: WINDOW })]);
        change(&mut setup);
        simulate(&setup).unwrap_err()
    };
    // There are 98 leaves, and a server distinguishes 64.
    assert!(matches!(refused(&|_| ()), FlowError::Plan { job: 0, .. }));
    assert!(matches!(refused(&|setup| setup.jobs[0].workers.truncate(1)), FlowError::Job { job: 0 }));
    assert!(matches!(refused(&|setup| setup.jobs[0].servers.clear()), FlowError::Job { job: 0 }));
    assert!(matches!(refused(&|setup| setup.jobs[0].begins = f64::NAN), FlowError::Number { .. }));
    assert!(matches!(refused(&|setup| setup.assumptions.hop_seconds = -1.0), FlowError::Number { .. }));
}

/// Makes a setup of several jobs of all kinds on a small fat tree.
///
/// It has background traffic, and a core is down for some time.
fn busy<'a>(topology: &'a Topology, load: f64, seed: u64) -> Setup<'a> {
    let hosts: Vec<NodeKey> = topology.hosts().map(|(key, ..)| key).collect();
    let methods = [
        Method::Fabric { window: WINDOW },
        Method::Ring,
        Method::ParameterServer { servers: 2 },
        Method::DoubleTree,
        Method::Leaf { window: WINDOW },
    ];
    let jobs = methods.into_iter().enumerate().map(|(n, method)| {
        let mine = || hosts.iter().copied().skip((n as u64 + seed) as usize % 5).step_by(5);
        Job { workers: mine().skip(2).collect(), servers: mine().take(2).collect(), ..job(topology, method) }
    });
    let core = topology.find("core0").unwrap();
    let mut setup = setup(topology, jobs.collect());
    setup.assumptions = Assumptions::with_slots(WINDOW);
    setup.background = Some(Background { load, mean_bytes: 2e7 });
    setup.outages = vec![Outage { what: Down::Node(core), from: 0.05, until: 0.4 }];
    setup.seed = seed;
    setup
}

#[test]
fn the_same_setup_has_the_same_outcome() {
    let topology = fat_tree(6, 40);
    assert_eq!(simulate(&busy(&topology, 0.4, 3)).unwrap(), simulate(&busy(&topology, 0.4, 3)).unwrap());
    assert_ne!(simulate(&busy(&topology, 0.4, 3)).unwrap(), simulate(&busy(&topology, 0.4, 4)).unwrap());
}

fn streams() -> impl Strategy<Value = (Vec<f64>, Vec<Stream>)> {
    let link = prop_oneof![9 => 1.0..100.0f64, 1 => Just(0.0)];
    let limit = prop_oneof![3 => Just(f64::INFINITY), 1 => 0.1..20.0f64];
    let uses = prop::collection::btree_map(0usize..8, 0.1..4.0f64, 1..5);
    let stream = (uses, limit).prop_map(|(uses, limit)| Stream {
        bytes: 1.0,
        limit,
        uses: uses.into_iter().collect(),
    });
    (prop::collection::vec(link, 8), prop::collection::vec(stream, 1..20))
}

proptest! {
    /// No link is above its capacity, and each stream is at its limit or uses a full link.
    ///
    /// No other stream on this full link has a higher rate.
    #[test]
    fn shares_are_fair_and_fit((capacity, streams) in streams()) {
        let rates = max_min(&capacity, &streams.iter().collect::<Vec<_>>());
        let load = |at: usize| -> f64 {
            let uses = streams.iter().zip(&rates).flat_map(|(stream, rate)| stream.uses.iter().map(move |one| (one, rate)));
            uses.filter(|((link, _), _)| *link == at).map(|((_, weight), rate)| weight * rate).sum()
        };
        let is_full = |at: usize| load(at) >= capacity[at] - 1e-9;
        for (at, capacity) in capacity.iter().enumerate() {
            prop_assert!(load(at) <= capacity + 1e-9);
        }
        for (stream, &rate) in streams.iter().zip(&rates) {
            prop_assert!(rate <= stream.limit);
            let has_most = |at: usize| streams.iter().zip(&rates)
                .filter(|(other, _)| other.uses.iter().any(|(link, _)| *link == at))
                .all(|(_, other)| *other <= rate + 1e-9);
            let is_kept = stream.uses.iter().any(|&(at, _)| is_full(at) && has_most(at));
            prop_assert!(is_kept || rate >= stream.limit - 1e-9);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Under any load, no link carries more than its capacity over the whole time, and every job finishes.
    #[test]
    fn no_link_carries_more_than_it_can(load in 0.0..0.9f64, seed in 0u64..1000) {
        let topology = fat_tree(6, 40);
        let found = simulate(&busy(&topology, load, seed)).unwrap();
        prop_assert!(found.busiest() <= 1.0 + 1e-9, "{}", found.busiest());
        prop_assert!(found.jobs.iter().all(|job| job.iterations.len() == 2));
    }
}

/// Ranks follow the topology's order of hosts, both here and in the planner's comparison.
#[test]
fn a_ring_is_no_slower_than_the_planner_says() {
    let topology = fat_tree(6, 40);
    let request = JobRequest {
        workers: Member::ranked(topology.workers()),
        ..JobRequest::of(&topology, WINDOW, GRADIENT).unwrap()
    };
    let planned = plan(&topology, &FabricState::of(&topology, 4096), &request).unwrap();
    let measured = synchronisation(&topology, Method::Ring);
    // The planner counts no headers, and no link of its ring carries two connections.
    assert_near(measured, planned.comparison.ring_seconds * TCP, 0.01);
}
