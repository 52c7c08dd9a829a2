//! Tests of `tributary demo` with real training over the real P4 program, in every mode.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tributary_testkit::binary::{self, json, left_shared_memory};
use tributary_testkit::root;

/// Time that a demo may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the demo for a few rounds, and returns its report.
fn demo(options: &[&str]) -> Value {
    let short = ["demo", "--json", "--rounds", "3"];
    json(&[&short, options].concat())
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {report}"))
}

fn assert_sums_are_right(report: &Value) {
    assert_eq!(report["identical_on_all_workers"], true, "{report}");
    assert!(number(report, "/max_relative_error") < 1e-6, "{report}");
}

fn assert_every_slot_is_released(report: &Value) {
    assert_eq!(report["slots"]["released"], report["slots"]["used"], "{report}");
}

#[test]
fn training_over_the_tree_is_training_on_one_machine() {
    let report = json(&["demo", "--json"]);
    assert_sums_are_right(&report);
    assert_every_slot_is_released(&report);
    let (ours, alone) = (number(&report, "/accuracy"), number(&report, "/accuracy_one_machine"));
    assert!(ours > 0.93, "{report}");
    assert!((ours - alone).abs() < 0.01, "{report}");
    assert_eq!(report["workers"], 8);
    assert!(number(&report, "/values_per_round") >= 100_000.0);
}

#[test]
fn every_level_of_the_tree_divides_what_reaches_the_server() {
    let [none, leaf, tree] = ["none", "leaf", "tree"].map(|aggregation| {
        let report = demo(&["--aggregation", aggregation]);
        assert_sums_are_right(&report);
        assert_every_slot_is_released(&report);
        report
    });
    // Contributions are compared, because the numbers of bytes would differ if a busy machine retransmits
    // slices.
    let aggregated = |report| number(report, "/server/contributions");
    assert_eq!(aggregated(&none), 8.0 * aggregated(&tree));
    assert_eq!(aggregated(&leaf), 4.0 * aggregated(&tree));
    assert_eq!(aggregated(&tree), number(&tree, "/server/results"), "one for each slice");
    let at_least = |report, factor| {
        let (bytes, bound) = (number(report, "/bytes/into_server"), number(report, "/bound/into_server"));
        assert!(bytes >= factor * bound, "{report}");
    };
    at_least(&tree, 1.0);
    at_least(&leaf, 4.0);
    at_least(&none, 8.0);
    assert!(number(&tree, "/bytes/all_links") >= number(&tree, "/bound/all_links"));
}

#[test]
fn unicast_results_cost_the_server_one_copy_a_worker() {
    let [unicast, multicast] = ["unicast", "multicast"].map(|downlink| {
        let report = demo(&["--downlink", downlink]);
        assert_sums_are_right(&report);
        assert_every_slot_is_released(&report);
        let (results, bytes) = (number(&report, "/server/results"), number(&report, "/bytes/out_of_server"));
        assert!(bytes >= 1024.0 * results, "a result has 256 values: {report}");
        results
    });
    assert_eq!(unicast, 8.0 * multicast);
}

#[test]
fn losses_on_every_link_change_no_sum() {
    for downlink in ["multicast", "unicast"] {
        let report = demo(&["--loss", "0.05", "--downlink", downlink]);
        assert_sums_are_right(&report);
        assert!(number(&report, "/retransmissions") > 0.0, "{report}");
    }
    assert_sums_are_right(&demo(&["--loss", "0.05", "--aggregation", "leaf"]));
    assert_sums_are_right(&demo(&["--loss", "0.05", "--aggregation", "none"]));
}

/// Runs the program for Tofino with slices of 32 values. A shim allows the embedded switch to run it.
#[test]
fn training_over_tofinos_controls_is_right_too() {
    let tofino = ["--pipeline", "p4/build/tna-32"];
    for downlink in ["multicast", "unicast"] {
        let report = demo(&[&tofino[..], &["--downlink", downlink]].concat());
        assert_sums_are_right(&report);
        assert_every_slot_is_released(&report);
        let (results, bytes) = (number(&report, "/server/results"), number(&report, "/bytes/out_of_server"));
        assert!(bytes < 1024.0 * results * if downlink == "unicast" { 8.0 } else { 1.0 }, "{report}");
    }
    let report = demo(&[&tofino[..], &["--loss", "0.05"]].concat());
    assert_sums_are_right(&report);
    assert!(number(&report, "/retransmissions") > 0.0, "{report}");
}

#[test]
fn a_fabric_with_two_spines_works_too() {
    let report = demo(&["--topology", "topologies/leaf-spine-8.toml"]);
    assert_sums_are_right(&report);
    assert_every_slot_is_released(&report);
}

#[test]
fn a_plain_switch_in_the_middle_is_passed_by_mac_address() {
    let report = demo(&["--topology", "topologies/plain-middle-4.toml"]);
    assert_sums_are_right(&report);
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let mut demo = Command::new(binary::path())
            .args(["demo", "--json", "--rounds", "100000"])
            .current_dir(root())
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let all = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let sockets = || all().filter_map(|folder| fs::read_dir(folder).ok()).flatten().count();
        let deadline = Instant::now() + PATIENCE;
        while sockets() < 8 {
            assert_eq!(demo.try_wait().unwrap(), None);
            assert!(Instant::now() < deadline, "its agents do not listen");
        }
        kill_process(Pid::from_child(&demo), signal).unwrap();
        assert_eq!(demo.wait().unwrap().code(), Some(status));
        assert_eq!(all().count(), 0);
    }
    assert_eq!(left_shared_memory(), Vec::<String>::new());
}
