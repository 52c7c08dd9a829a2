//! Tests of the studies of `tributary-bench scale`, with small networks.

use tributary_sim::flow::study::{Measured, Point, Settings, Study};
use tributary_sim::flow::{Assumptions, Compute, FlowError, Method};

fn settings() -> Settings {
    Settings {
        rate: 100_000_000_000,
        oversubscription: 4,
        gradient_bytes: 10_000_000,
        compute: Compute { seconds: 0.1, spread: 0.1 },
        windows: vec![256, 1024],
        servers: 2,
        workers: 6,
        iterations: 2,
        seeds: 2,
        assumptions: Assumptions::with_slots(16 * 256),
    }
}

fn point(study: Study, place: usize) -> Point {
    settings().measure(study, place).unwrap()
}

fn result(point: &Point, method: Method) -> &Measured {
    point.results.iter().find(|one| one.method == method).unwrap()
}

fn seconds(point: &Point, method: Method) -> f64 {
    result(point, method).seconds.unwrap()
}

const FABRIC: Method = Method::Fabric { window: 1024 };
const SERVER: Method = Method::ParameterServer { servers: 1 };

#[test]
fn the_fabric_takes_as_long_for_256_workers_as_for_16_and_a_server_16_times_as_long() {
    let [few, many] = [0, 2].map(|place| point(Study::Scaling, place));
    assert_eq!((few.place.as_str(), many.place.as_str()), ("16", "256"));
    assert!(seconds(&many, FABRIC) < 1.02 * seconds(&few, FABRIC));
    assert!(seconds(&many, SERVER) > 15.0 * seconds(&few, SERVER));
    // The ring has 510 steps, and each takes a packet's latency.
    assert!(seconds(&many, Method::Ring) > 1.5 * seconds(&few, Method::Ring));
    // 72 switches have workers, but a server distinguishes only 64 streams.
    let leaves = result(&many, Method::Leaf { window: 1024 });
    assert!(leaves.seconds.is_none() && leaves.refused.as_ref().unwrap().contains("64"), "{leaves:?}");
}

#[test]
fn a_small_window_is_the_limit_of_fast_links() {
    let point = point(Study::Scaling, 0);
    let [small, large] = [256, 1024].map(|window| result(&point, Method::Fabric { window }));
    assert_eq!((small.window_bound, large.window_bound), (1.0, 0.0));
    assert!(small.seconds > large.seconds);
}

#[test]
fn without_slots_streams_pass_and_with_slots_for_all_none_does() {
    let [none, all] = [0, 4].map(|place| point(Study::Slots, place));
    assert_eq!((none.place.as_str(), all.place.as_str()), ("0", "16"));
    let [none, all] = [&none, &all].map(|point| result(point, FABRIC));
    assert!(none.aggregating == 0.0 && none.passing > 0.0, "{none:?}");
    assert!(all.passing == 0.0 && all.aggregating > 0.0, "{all:?}");
    assert!(none.seconds > all.seconds);
}

#[test]
fn congestion_takes_time_from_everyone() {
    let [calm, busy] = [0, 3].map(|place| point(Study::Congestion, place));
    for method in settings().methods() {
        assert!(seconds(&busy, method) > 0.95 * seconds(&calm, method), "{method:?}");
    }
    assert!(seconds(&busy, Method::Ring) > seconds(&calm, Method::Ring));
    assert!(seconds(&busy, FABRIC) > seconds(&calm, FABRIC));
}

#[test]
fn a_dead_core_costs_the_fabric_at_most_the_time_to_another_tree() {
    let settings = settings();
    let point = point(Study::Failures, 0);
    let lost = seconds(&point, FABRIC);
    assert!(lost > 0.0 && lost < settings.assumptions.replan_seconds + 0.1, "{lost}");
}

#[test]
fn each_study_has_each_method_at_each_place_and_is_the_same_each_time() {
    let methods = settings().methods();
    assert_eq!(methods.len(), 7);
    for study in Study::ALL {
        let point = point(study, study.points() - 2);
        let found: Vec<_> = point.results.iter().map(|one| one.method).collect();
        assert_eq!(found, if study == Study::Slots { &methods[..3] } else { &methods });
        assert_eq!(point, self::point(study, study.points() - 2));
    }
}

#[test]
fn more_hosts_than_a_fat_tree_has_are_refused() {
    let settings = Settings { workers: 10_000, ..settings() };
    assert!(matches!(settings.measure(Study::Jobs, 0), Err(FlowError::Network(_))));
}
