//! Tests of `tributary-bench switch` and `forwarding`, which measure a switch between real interfaces
//! under load. They need root and network tools; if these are missing, the tests print that they are
//! skipped.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tributary_testkit::binary::{BENCH, TRIBUTARY, stderr};
use tributary_testkit::labs;
use tributary_testkit::user::User;

/// The longest time for any step. A step that needs longer has a defect.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a bench with these switches. BMv2 is left out, because few machines have it.
fn start(bench: &str, switches: &str, options: &[&str]) -> Child {
    BENCH
        .command(&[bench, "--json", "--window", "16", "--switch", switches])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the name of the bench's lab.
fn lab(bench: &str, process: &Child) -> String {
    format!("bench-{bench}-{}", process.id())
}

/// Returns the report of a bench with two runs of `seconds` each. Checks that the bench leaves nothing
/// behind.
fn measured(bench: &str, switch: &str, seconds: f64) -> Value {
    let process = start(bench, switch, &["--runs", "2", "--seconds", &seconds.to_string()]);
    let lab = lab(bench, &process);
    let output = process.wait_with_output().unwrap();
    // The bench fails at the first wrong sum or packet.
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(labs::traces(&lab), Vec::<String>::new());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn cases(report: &Value) -> &Vec<Value> {
    report["cases"].as_array().unwrap()
}

fn runs(case: &Value) -> &Vec<Value> {
    case["runs"].as_array().unwrap()
}

/// Checks that all results are correct, and that the report says so; returns the report's cases.
fn everything_is_right(bench: &str, switch: &str) -> Vec<Value> {
    // On a very busy machine, the shortest runs complete no work, so longer ones follow.
    let report = [0.3, 3.0, 30.0, 300.0]
        .into_iter()
        .map(|seconds| measured(bench, switch, seconds))
        .find(|report| cases(report).iter().flat_map(runs).all(|run| run["items"].as_u64().unwrap() > 0));
    let report = report.expect("sums or packets, in five minutes");
    for case in cases(&report) {
        assert_eq!(runs(case).len(), 2);
        for run in runs(case) {
            assert!(run["generator_cpu_seconds"].as_f64().unwrap() > 0.0, "{run}");
        }
        let rates: Vec<f64> = runs(case).iter().map(|run| run["per_second"].as_f64().unwrap()).collect();
        let median = case["candidates"][0]["per_second"]["median"].as_f64().unwrap();
        assert!((median - (rates[0] + rates[1]) / 2.0).abs() < 1e-6 * median, "{case}");
        assert_eq!(case["comparisons"].as_array().unwrap().len(), 0, "{case}");
    }
    assert!(report["passed"].is_null(), "{report}");
    cases(&report).clone()
}

/// Checks that all sums of a switch are correct at both widths.
fn every_sum_is_right(switch: &str) {
    if !labs::can_be_made() {
        return;
    }
    let cases = everything_is_right("switch", switch);
    let widths: Vec<_> = cases.iter().map(|case| case["values"].as_u64().unwrap()).collect();
    assert_eq!(widths, [256, 2048]);
}

#[test]
fn every_sum_of_the_embedded_switch_is_right_and_nothing_of_the_bench_stays() {
    every_sum_is_right("softswitch");
}

#[test]
fn every_sum_is_right_where_hosts_and_switch_join_frames() {
    every_sum_is_right("joined");
}

#[test]
fn every_sum_of_the_bare_loop_is_right() {
    every_sum_is_right("loop");
}

#[test]
fn every_packet_is_forwarded_right_by_each_program() {
    if !labs::can_be_made() {
        return;
    }
    for switch in ["softswitch", "bypassing"] {
        let cases = everything_is_right("forwarding", switch);
        let programs: Vec<_> = cases.iter().map(|case| case["program"].as_str().unwrap()).collect();
        assert_eq!(programs, ["l2", "router", "acl"]);
    }
}

#[test]
fn a_bench_that_is_stopped_leaves_nothing() {
    if !labs::can_be_made() {
        return;
    }
    let bench = start("switch", "softswitch", &["--seconds", "1000"]);
    let lab = lab("switch", &bench);
    let deadline = Instant::now() + PATIENCE;
    // The log exists as soon as the switch has been started.
    while !std::path::Path::new("/run/tributary/lab").join(&lab).join("switch.log").exists() {
        assert!(Instant::now() < deadline, "the switch is not started");
    }
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped by a signal"), "{}", stderr(&output));
    assert_eq!(labs::traces(&lab), Vec::<String>::new());
}

#[test]
fn impossible_options_are_refused() {
    BENCH.refused(&["switch", "--window", "3"], 2, &["--window", "power of two"]);
    BENCH.refused(&["switch", "--window", "8192"], 2, &["--window", "4096 slots"]);
    BENCH.refused(&["switch", "--mtu", "60"], 2, &["--mtu", "at least"]);
    BENCH.refused(&["switch", "--switch", "both"], 2, &["--switch", "bmv2"]);
    BENCH.refused(&["switch", "--runs", "0"], 2, &["--runs"]);
    BENCH.refused(&["switch", "--seconds", "-1"], 2, &["--seconds", "above 0"]);
    BENCH.refused(&["switch", "--seconds", "NaN"], 2, &["--seconds", "above 0"]);
    BENCH.refused(&["forwarding", "--program", "l3"], 2, &["--program", "router"]);
    BENCH.refused(&["forwarding", "--window", "3"], 2, &["--window", "power of two"]);
    if labs::can_be_made() {
        BENCH.refused(&["forwarding", "--bytes", "9000"], 1, &["9000 bytes", "1514"]);
        BENCH.refused(&["forwarding", "--switch", "loop"], 1, &["the bare loop runs no programs"]);
    }
}

/// The kernel limits the size of an ordinary user's buffers.
#[test]
fn an_ordinary_user_measures_the_bare_loop() {
    let Some(user) = User::new(&[TRIBUTARY, BENCH]) else { return };
    let once = ["--mtu", "1500", "--window", "16", "--runs", "1", "--seconds", "1"];
    let output = user.run(BENCH, &[&["switch", "--switch", "loop"], &once[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}
