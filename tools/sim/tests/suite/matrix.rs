//! Tests of the simulation, on a smaller gradient than in the tables of README.md.

use std::time::Duration;

use tributary_protocol::Downlink;
use tributary_sim::{
    Faults, Link, Scenario, ScenarioOutcome, Sweep, Total, Tree, case, run, search, sweep, table,
};
use tributary_wire::frame::longest_frame;
use tributary_wire::{Seq, SliceWidth};

const SLICES: u64 = 512;
const MAX_SLICES: u64 = SLICES.div_ceil(42);
/// Number of rest slices. A few blocks need more than one integer for each value.
const REST_SLICES: u64 = 1;
/// Length of a frame in bytes: Ethernet, IPv4, UDP and INA headers, and the slice's values.
const FRAME: u64 = 70 + 1024;

fn small() -> Scenario {
    Scenario { elements: SLICES as usize * 256, ..Scenario::default() }
}

fn lossy(scenario: Scenario, loss: f64) -> Scenario {
    let link = Link { loss, ..scenario.link };
    Scenario { link, ..scenario }
}

fn key_figures(outcome: &ScenarioOutcome) -> (u128, u64, u64, u64) {
    (outcome.duration.as_micros(), outcome.bytes_into_server(), outcome.retransmitted(), outcome.timeouts())
}

#[test]
fn without_losses_every_link_carries_everything_once() {
    let outcome = run(&small()).unwrap();
    let slices = SLICES + MAX_SLICES + REST_SLICES;
    // Each hop that is left on the stack adds 6 bytes. These are the server's entry, and one entry for each
    // switch.
    assert_eq!(outcome.bytes_into_server(), slices * (FRAME + 6));
    assert_eq!(outcome.bytes_out_of_server(), slices * FRAME);
    assert_eq!(outcome.up.iter().map(|link| link.packets).collect::<Vec<_>>(), [slices; 15]);
    assert_eq!(outcome.down.iter().map(|link| link.packets).collect::<Vec<_>>(), [slices; 15]);
    assert_eq!(outcome.up[14].bytes, slices * (FRAME + 4 * 6));
    assert_eq!((outcome.retransmitted(), outcome.timeouts(), outcome.dropped()), (0, 0, 0));
    // The time at the links' rate, plus two trips through the tree: one for the bounds, and one for the last
    // slice.
    let wire = Duration::from_nanos(outcome.up[14].bytes * 8 * 20);
    assert!(outcome.duration > wire && outcome.duration < wire + Duration::from_millis(5));
}

#[test]
fn unicast_multiplies_only_what_leaves_the_server() {
    let outcome = run(&Scenario { downlink: Downlink::Unicast, ..small() }).unwrap();
    let slices = SLICES + MAX_SLICES + REST_SLICES;
    assert!(outcome.down[0].packets >= 8 * slices);
    assert!(outcome.bytes_into_server() < slices * (FRAME + 6) * 2);
}

#[test]
fn the_same_seed_has_the_same_outcome() {
    let scenario = lossy(small(), 0.02);
    assert_eq!(run(&scenario).unwrap(), run(&scenario).unwrap());
    let other = run(&Scenario { seed: 2, ..scenario.clone() }).unwrap();
    assert_ne!(run(&scenario).unwrap(), other);
}

/// Compares microseconds, bytes into the server, retransmissions and timeouts with recorded figures.
///
/// A change of the protocol's timers changes them. Check that the new figures are better, and record them.
#[test]
fn loss_by_window_is_as_it_was() {
    let mut figures = Vec::new();
    for window in [64, 256] {
        for loss in [0.0, 0.001, 0.01, 0.05] {
            let scenario = lossy(Scenario { window, ..small() }, loss);
            figures.push((window, loss, key_figures(&run(&scenario).unwrap())));
        }
    }
    let as_it_was = [
        (64, 0.0, (95881, 578600, 0, 0)),
        (64, 0.001, (103405, 601976, 102, 0)),
        (64, 0.01, (148854, 689264, 845, 0)),
        (64, 0.05, (434969, 999016, 3348, 76)),
        (256, 0.0, (95881, 578600, 0, 0)),
        (256, 0.001, (100335, 603828, 53, 0)),
        (256, 0.01, (141015, 694848, 649, 4)),
        (256, 0.05, (600080, 1152612, 3291, 145)),
    ];
    assert_eq!(figures, as_it_was, "got {figures:#?}");
}

#[test]
fn losses_cost_little_time() {
    let larger = Scenario { elements: 4 * small().elements, ..small() };
    let time = |loss| {
        let seconds =
            |seed| run(&Scenario { seed, ..lossy(larger.clone(), loss) }).unwrap().duration.as_secs_f64();
        (1..=3).map(seconds).sum::<f64>() / 3.0
    };
    let [lossless, little, much] = [0.0, 0.001, 0.01].map(time);
    assert!(little < 1.2 * lossless, "{little} {lossless}");
    assert!(much < 1.6 * lossless, "{much} {lossless}");
}

/// Nearly every slice is lost several times, and only retransmit requests help.
///
/// The protocol must not mistake these losses for full queues.
#[test]
fn heavy_losses_are_asked_for_at_the_usual_times() {
    let tree = Tree::regular(&[2, 2, 2]);
    let link = Link { rate: 100_000_000, loss: 0.2, ..Scenario::default().link };
    let scenario = Scenario { tree, link, elements: 64 * 256, operations: 5, ..Scenario::default() };
    let seconds = |seed| run(&Scenario { seed, ..scenario.clone() }).unwrap().duration.as_secs_f64();
    let mean = (1..=3).map(seconds).sum::<f64>() / 3.0;
    assert!(mean < 140.0, "{mean:.0} s");
}

/// Round trips on these links are longer than any timeout.
///
/// While queues are empty or token buckets are full, the first round trips are shorter than all later ones.
/// If members request slices before the results can exist, the requests fill the queues and block all other
/// packets. This is worse if members begin one after the other, because the first members have already sent
/// requests then.
#[test]
fn slow_links_carry_slices_and_not_questions() {
    /// Slices with their MAX slices, divided by slices: one MAX slice has the bounds of 42 slices.
    const WITH_BOUNDS: f64 = (256 + 256_u64.div_ceil(42)) as f64 / 256.0;
    let (ethernet, widest) = (SliceWidth::ETHERNET, SliceWidth::WIDEST);
    let rates = [(1, 0), (1, 4), (5, 0), (5, 4), (20, 0), (20, 4), (20, 16)];
    let of_8 = rates.map(|rate| (Tree::three_tier_8(), ethernet, rate));
    let of_8_wide = [(1, 0), (2, 1), (3, 1), (3, 4), (5, 0), (5, 1), (5, 4), (20, 0), (20, 4)]
        .map(|rate| (Tree::three_tier_8(), widest, rate));
    let of_64 = [(2, 1), (5, 4), (20, 16)].map(|rate| (Tree::regular(&[4, 4, 4]), ethernet, rate));
    let of_64_wide =
        [(3, 1), (3, 4), (10, 4), (20, 0), (20, 4)].map(|rate| (Tree::regular(&[4, 4, 4]), widest, rate));
    for (tree, width, (rate, burst)) in of_8.into_iter().chain(of_8_wide).chain(of_64).chain(of_64_wide) {
        for last in [Duration::ZERO, Duration::from_millis(100)] {
            let workers = tree.workers();
            let what = format!(
                "{workers} workers, the last {last:?} late, {rate} Mbit/s, bursts of {burst} packets of {width:?}"
            );
            let burst = burst * longest_frame(width) as u64;
            let link = Link { rate: rate * 1_000_000, burst, queue: 512, ..Scenario::default().link };
            let elements = 256 * width.values();
            let late = |worker: usize| (worker, last.mul_f64((worker + 1) as f64 / workers as f64));
            let stragglers = (0..workers).map(late).collect();
            let tree = tree.clone();
            let scenario = Scenario { tree, link, width, elements, stragglers, ..Scenario::default() };
            let seconds = (run(&scenario).unwrap().duration - last).as_secs_f64();
            let to_ideal = seconds / (scenario.ideal().as_secs_f64() * WITH_BOUNDS);
            assert!(to_ideal < 1.3, "{what}: {to_ideal:.2} times ideal");
        }
    }
}

#[test]
fn a_late_worker_causes_no_storm() {
    for late_ms in [50, 200, 500] {
        let late = Duration::from_millis(late_ms);
        let outcome = run(&Scenario { stragglers: vec![(3, late)], ..small() }).unwrap();
        assert!(outcome.duration < late + Duration::from_millis(100), "{:?}", outcome.duration);
        // Seven workers wait. Each requests a few slices, at doubling intervals.
        assert!(outcome.retransmitted() < 7 * 30, "{late_ms} ms: {} asked", outcome.retransmitted());
    }
}

#[test]
fn the_demo_on_two_cores_bears_one_percent() {
    let scenario = Scenario { operations: 5, ..Scenario::in_process() };
    let time = |loss| {
        let seconds =
            |seed| run(&Scenario { seed, ..lossy(scenario.clone(), loss) }).unwrap().duration.as_secs_f64();
        (1..=4).map(seconds).sum::<f64>()
    };
    assert!(time(0.01) < 3.0 * time(0.0));
}

#[test]
fn a_sweep_has_a_row_for_every_combination() {
    let base = Scenario { elements: 20 * 256, ..Scenario::default() };
    let rows = sweep(&Sweep {
        losses: vec![0.0, 0.01],
        windows: vec![16, 64],
        downlinks: vec![Downlink::Multicast, Downlink::Unicast],
        late_ms: vec![0, 20],
        seeds: 2,
        base,
    })
    .unwrap();
    assert_eq!(rows.len(), 16);
    assert!(rows.iter().filter(|row| row.loss == 0.0 && row.late_ms == 0).all(|row| row.to_lossless == 1.0));
    let text = table(&rows);
    assert_eq!(text.lines().count(), 16 + 4);
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!(json[15]["downlink"], "unicast");
    assert_eq!(json[15]["loss"], 0.01);
}

#[test]
fn a_window_that_is_no_power_of_two_is_refused() {
    let error = run(&Scenario { window: 100, ..small() }).unwrap_err();
    assert!(error.to_string().contains("power of two"), "{error}");
}

/// Approximate number of values that the workers of one random scenario contribute.
const VALUES: usize = 20_000;

#[test]
fn random_scenarios_have_everything_in_them() {
    let cases: Vec<Scenario> = (1..=40).map(|seed| case(seed, VALUES)).collect();
    let wraps = |case: &&Scenario| case.start != Seq::FIRST;
    assert!(cases.iter().any(|case| case.tree.workers() == 64 && case.tree.switches() == 21));
    assert!(cases.iter().filter(wraps).any(|case| case.link.loss == 0.3));
    assert!(cases.iter().any(|case| case.faults.reboots.len() == 3));
    assert!(cases.iter().any(|case| case.faults.duplicates == 0.2 && case.faults.late == 0.3));
    assert!(cases.iter().any(|case| case.host.pauses > 0.0) && cases.iter().any(|case| case.window == 1));
    assert!(cases.iter().any(|case| !case.stragglers.is_empty()));
}

/// A change of the protocol's timers changes the retransmissions, and so the losses.
///
/// Check that the new figures are better, and record them. The counts `wrong` and `stuck` must stay 0.
#[test]
fn random_scenarios_end_as_they_did() {
    let total = search(1..=40, VALUES, |_, found| {
        assert_eq!(found, None);
        true
    });
    let as_it_was =
        Total { scenarios: 40, values: 317_844, retransmitted: 24_498, lost: 15_535, wrong: 0, stuck: 0 };
    assert_eq!(total, as_it_was);
}

/// 16 members have short queues in front of them, and one member misses a result that the others have.
///
/// When all members sent requests at the same instant, the queue dropped this member's request each time.
#[test]
fn a_member_that_is_behind_is_heard_among_those_that_wait_for_it() {
    run(&case(776_509, 1 << 20)).unwrap();
}

#[test]
fn a_reboot_costs_time_and_nothing_else() {
    // While one worker is late, every switch has slots that are not full.
    let late = Scenario { stragglers: vec![(3, Duration::from_millis(20))], ..small() };
    let reboots = (0..7).map(|switch| (switch, Duration::from_millis(19))).collect();
    let faults = Faults { reboots, ..Faults::default() };
    let (calm, shaken) = (run(&late).unwrap(), run(&Scenario { faults, ..late }).unwrap());
    assert!(
        shaken.retransmitted() > calm.retransmitted() && shaken.duration > calm.duration,
        "{shaken:?} {calm:?}"
    );
}
