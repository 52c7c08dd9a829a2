//! Tests of the report on a comparison.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tributary_bench::comparison::{
    Case, ComparisonReport, ComparisonSetting, Contender, Elements, Limit, Machine, Turn,
};

const BYTES: u64 = 8 << 20;
const RATE: u64 = 50_000_000;
/// Time that the tensor without headers takes on one link, in seconds.
const BARE: f64 = BYTES as f64 * 8.0 / RATE as f64;

fn setting() -> ComparisonSetting {
    let machine =
        Machine { processor: "any".into(), cores: 2, kernel: "6.1".into(), build: "release".into() };
    ComparisonSetting {
        began: 0,
        topology: "three-tier-8".into(),
        workers: 8,
        bytes: BYTES,
        elements: Elements::F32,
        mtu: 1500,
        rounds: 3,
        iterations: 1,
        machine,
        versions: BTreeMap::new(),
        skipped: Vec::new(),
    }
}

fn case(contender: Contender, loss: f64) -> Case {
    Case { rate: RATE, loss, single_frames: false, contender }
}

/// Returns three turns of one all-reduce each.
///
/// `bare` are their times relative to the tensor's time on one link.
fn turns(case: Case, bare: [f64; 3], link_load: f64, processor_share: f64) -> Vec<(Case, Turn)> {
    let turn = |bare: f64| Turn {
        seconds: vec![bare * BARE],
        link_bytes: link_load * BYTES as f64,
        processor_share,
    };
    bare.map(|bare| (case, turn(bare))).to_vec()
}

/// Reports on made-up turns: ours, gloo and the server alone are each close to their bounds.
///
/// Ours with losses takes `ours_with_loss` times the tensor's time on one link.
fn report(setting: ComparisonSetting, ours_with_loss: f64) -> ComparisonReport {
    let turns = [
        turns(case(Contender::Ours, 0.0), [1.1, 1.2, 1.0], 1.08, 0.5),
        turns(case(Contender::Ours, 0.01), [ours_with_loss; 3], 1.2, 0.3),
        turns(case(Contender::Gloo, 0.0), [2.2, 2.0, 2.1], 1.83, 0.6),
        turns(case(Contender::OpenMpi, 0.0), [4.0, 5.0, 6.0], 2.0, 0.99),
        turns(case(Contender::Server, 0.0), [8.8, 8.8, 8.8], 8.6, 0.3),
    ];
    ComparisonReport::of(setting, &turns.concat()).unwrap()
}

fn limit(report: &ComparisonReport, contender: Contender, loss: f64) -> Limit {
    report.rows.iter().find(|row| row.case == case(contender, loss)).unwrap().limit
}

#[test]
fn a_full_link_limits_before_a_busy_processor_and_else_it_is_waiting() {
    let report = report(setting(), 2.0);
    assert_eq!(limit(&report, Contender::Gloo, 0.0), Limit::Link);
    assert_eq!(limit(&report, Contender::OpenMpi, 0.0), Limit::Processor);
    assert_eq!(limit(&report, Contender::Ours, 0.01), Limit::Waiting);
    assert_eq!(Limit::of(0.9, 1.0), Limit::Link);
}

#[test]
fn ratios_are_of_medians_and_their_spread_is_of_turns_of_the_same_round() {
    let report = report(setting(), 2.0);
    let gloo = report.ratios.iter().find(|ratios| ratios.other == case(Contender::Gloo, 0.0)).unwrap();
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
    near(gloo.ratio.of_medians, 1.1 / 2.1);
    near(gloo.ratio.min, 1.0 / 2.1);
    near(gloo.ratio.max, 1.2 / 2.0);
    near(report.ring_bound(), 1.75);
    near(report.rows[0].to_bare, 1.1);
}

#[test]
fn a_limit_that_is_missed_fails_and_the_others_pass() {
    let passed = |report: &ComparisonReport| report.gates.iter().map(|gate| gate.passed).collect::<Vec<_>>();
    assert_eq!(passed(&report(setting(), 2.0)), [true; 4]);
    let slow = report(setting(), 3.0);
    let failed: Vec<_> = slow.gates.iter().filter(|gate| !gate.passed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].name, "50 Mbit/s: Tributary, 1 % loss / without losses");
    assert!((failed[0].value - 3.0 / 1.1).abs() < 1e-9 && failed[0].limit == 2.5);
}

#[test]
fn limits_are_for_one_topology_and_size() {
    assert!(report(ComparisonSetting { topology: "leaf-spine-8".into(), ..setting() }, 3.0).gates.is_empty());
    assert!(report(ComparisonSetting { elements: Elements::Bf16, ..setting() }, 3.0).gates.is_empty());
    assert!(report(ComparisonSetting { bytes: BYTES / 2, ..setting() }, 3.0).gates.is_empty());
}

#[test]
fn limits_depend_on_the_links_rate_and_mtu() {
    let turn = Turn { seconds: vec![1.0], link_bytes: 1.0, processor_share: 0.1 };
    let limits = |mtu: u16, megabits: u64| {
        let case = |contender| (Case { rate: megabits * 1_000_000, ..case(contender, 0.0) }, turn.clone());
        let turns = [Contender::Ours, Contender::Leaf, Contender::Gloo, Contender::Server].map(case);
        let report = ComparisonReport::of(ComparisonSetting { mtu, ..setting() }, &turns).unwrap();
        assert_eq!(report.ratios.len(), 3);
        report.gates.iter().map(|gate| gate.limit).collect::<Vec<_>>()
    };
    assert_eq!(limits(1500, 50), [0.60, 0.15]);
    assert_eq!(limits(9000, 50), [0.62, 0.15]);
    assert_eq!([limits(1500, 200), limits(1500, 1000)], [[0.65], [1.2]]);
    assert_eq!([limits(9000, 200), limits(9000, 1000)], [[0.62], [0.70]]);
    // A setting without limits has no gates.
    assert!(limits(1500, 300).is_empty() && limits(4000, 100).is_empty());
}

#[test]
fn losses_are_compared_over_links_of_the_same_kind() {
    let at = |case: Case| Case { rate: 100_000_000, ..case };
    let (lossless, lossy) = (at(case(Contender::Ours, 0.0)), at(case(Contender::Ours, 0.001)));
    let (single, gloo) = (Case { single_frames: true, ..lossless }, at(case(Contender::Gloo, 0.001)));
    let turns = [(lossless, 1.0), (single, 2.0), (lossy, 3.0), (gloo, 4.0)]
        .map(|(case, bare)| turns(case, [bare; 3], 1.0, 0.5))
        .concat();
    let report = ComparisonReport::of(setting(), &turns).unwrap();
    let pairs: Vec<_> = report.ratios.iter().map(|ratios| (ratios.ours, ratios.other)).collect();
    assert_eq!(pairs, [(single, lossless), (lossy, single), (lossy, gloo)]);
    let gates: Vec<_> = report.gates.iter().map(|gate| ((gate.value * 100.0).round(), gate.limit)).collect();
    assert_eq!(gates, [(150.0, 1.5), (75.0, 1.0)]);
    // Without turns over single frames, losses are compared with joined frames.
    let turns: Vec<_> = turns.into_iter().filter(|(case, _)| *case != single).collect();
    let report = ComparisonReport::of(setting(), &turns).unwrap();
    assert_eq!((report.ratios[0].ours, report.ratios[0].other), (lossy, lossless));
}

#[test]
fn a_turn_without_an_all_reduce_is_refused() {
    let empty = Turn { seconds: Vec::new(), link_bytes: 1.0, processor_share: 0.1 };
    assert!(ComparisonReport::of(setting(), &[(case(Contender::Gloo, 0.0), empty)]).is_err());
}

#[test]
fn programs_find_contenders_by_the_names_of_the_command_line() {
    let report = serde_json::to_value(report(setting(), 2.0)).unwrap();
    let of_row = |at: usize, key: &str| report["rows"][at][key].as_str().unwrap().to_owned();
    assert_eq!((of_row(2, "contender"), of_row(2, "limit")), ("gloo".to_owned(), "link".to_owned()));
    assert_eq!(report["topology"], "three-tier-8");
    assert!(serde_json::from_value::<ComparisonReport>(report).is_ok());
    for contender in Contender::ALL {
        assert_eq!(serde_json::to_value(contender).unwrap(), contender.name());
        assert_eq!(Contender::from_name(contender.name()), Some(contender));
    }
}
