//! Tests of `tributary-bench`: the protocol under loss on a virtual clock, and all-reduces of several
//! programs on real sockets.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tributary_testkit::binary::{BENCH, stderr};
use tributary_testkit::{labs, terminal};

/// Options of a small all-reduce over fast links.
const QUICK: [&str; 6] = ["allreduce", "--rate", "1gbit", "--size", "64KiB", "--json"];

const SHORT: [&str; 8] = ["simulate", "--json", "--size", "512KiB", "--loss", "0,0.02", "--seeds", "2"];

#[test]
fn losses_cost_time_and_bytes_and_the_same_ones_each_time() {
    let rows = BENCH.json(&SHORT);
    let number = |row: usize, field: &str| rows[row][field].as_f64().unwrap();
    assert_eq!(number(0, "to_lossless"), 1.0);
    assert!(number(1, "to_lossless") > 1.0);
    assert!(number(1, "bytes_on_all_links") > number(0, "bytes_on_all_links"));
    assert!(number(1, "retransmissions") > 0.0);
    assert_eq!(rows, BENCH.json(&SHORT));
}

#[test]
fn a_lossless_fabric_is_as_fast_as_its_links() {
    let rows = BENCH.json(&SHORT);
    let to_ideal = rows[0]["to_ideal"].as_f64().unwrap();
    // Headers add 7 %, and the first slice needs a round trip.
    assert!((1.07..1.3).contains(&to_ideal), "{to_ideal}");
}

/// Options of studies that are small enough for a build without optimisation.
const SMALL: [&str; 9] =
    ["scale", "--studies", "congestion,failures", "--seeds", "1", "--iterations", "1", "--size", "10MB"];

#[test]
fn a_cluster_is_studied_and_drawn_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    // The folder and its parent do not exist yet.
    let plotted = folder.path().join("results/scale");
    let plots = ["--json", "--plots", plotted.to_str().unwrap()];
    let report = BENCH.json(&[&SMALL[..], &plots].concat());
    let points = report["studies"][0]["points"].as_array().unwrap();
    assert_eq!(points[4]["place"], "80 %");
    let methods: Vec<_> = points[4]["results"].as_array().unwrap().iter().map(|one| &one["method"]).collect();
    let expected =
        ["fabric", "fabric", "leaf", "parameter-server", "parameter-server", "ring", "double-tree"];
    assert_eq!(methods, expected);
    assert!(points[4]["results"][0]["seconds"].as_f64() > points[0]["results"][0]["seconds"].as_f64());
    assert_eq!(report["settings"]["assumptions"]["slots"], 4096);
    assert_eq!(report, BENCH.json(&[&SMALL[..], &["--json"]].concat()));
    let drawn = fs::read_to_string(plotted.join("failures.svg")).unwrap();
    for word in ["<svg", "aggregation", "fabric 1024", "4 PS"] {
        assert!(drawn.contains(word), "{word:?} is not in: {drawn}");
    }
}

#[test]
fn people_see_the_times_and_what_the_fabric_saves_in_80_columns() {
    let output = BENCH.run(&SMALL);
    let shown = String::from_utf8(output.stdout).unwrap();
    for piece in ["10.0 MB", "25 Gbit/s", "lost time", "saved by", "fabric 256", "4 PS"] {
        assert!(shown.contains(piece), "{piece:?} is not in: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn impossible_options_are_refused() {
    BENCH.refused(&["scale", "--studies", "all"], 2, &["--studies", "scaling"]);
    BENCH.refused(&["scale", "--workers", "1"], 2, &["--workers"]);
    BENCH.refused(
        &["scale", "--plots", "Cargo.toml/plots"],
        1,
        &["cannot make the folder", "Cargo.toml/plots"],
    );
    BENCH.refused(&["agent", "--mtu", "1500,60"], 2, &["--mtu", "at least"]);
    BENCH.refused(&["agent", "--rounds", "0"], 2, &["--rounds"]);
    BENCH.refused(&["simulate", "--loss", "2"], 2, &["--loss", "probability"]);
    BENCH.refused(&["simulate", "--window", "3"], 2, &["--window", "power of two"]);
}

/// Returns the row of a contender at a loss rate.
fn row<'a>(report: &'a Value, contender: &str, loss: f64) -> &'a Value {
    let mut rows = report["rows"].as_array().unwrap().iter();
    rows.find(|row| row["contender"] == contender && row["loss"] == loss).unwrap()
}

fn start(options: &[&str]) -> Child {
    start_command(&[&QUICK, options].concat())
}

fn start_command(arguments: &[&str]) -> Child {
    BENCH.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the prefix of the names of a bench's labs.
fn labs_of(bench: &Child) -> String {
    format!("bench-{}-", bench.id())
}

#[test]
fn an_agents_time_and_frames_are_told_at_both_widths_and_nothing_stays() {
    if !labs::can_be_made() {
        return;
    }
    let small = ["--size", "1MiB", "--iterations", "1", "--rounds", "1", "--json"];
    let bench = start_command(&[&["agent"], &small[..]].concat());
    let labs = labs_of(&bench);
    let output = bench.wait_with_output().unwrap();
    // The bench fails at the first wrong sum.
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(labs::traces(&labs), Vec::<String>::new());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, values) in cases.iter().zip([256, 2048]) {
        assert_eq!(case["values"], values);
        let median = |figure: &str| case[figure]["median"].as_f64().unwrap();
        // Each slice is sent up once and down once, and retransmits add to this. The kernel counts up to 32
        // slices as one frame.
        let slices = f64::from(1 << 30) / f64::from(values * 4);
        assert!(median("frames_per_gib") >= 2.0 * slices / 32.0, "{case}");
        assert!(median("bytes_per_gib") >= 2.0 * f64::from(1 << 30), "{case}");
        assert!(median("user_seconds_per_gib") >= 0.0 && median("system_seconds_per_gib") >= 0.0, "{case}");
    }
}

#[test]
fn an_all_reduce_is_compared_with_the_server_alone_and_nothing_stays() {
    if !labs::can_be_made() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let bench = start(&["--rounds", "2", "--loss", "0,1%", "--contenders", "ours,server", "--out", out]);
    let labs = labs_of(&bench);
    let output = bench.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["topology"], &report["workers"]), (&"three-tier-8".into(), &8.into()));
    // With the fabric, the server's link carries the sum of the contributions; with the server alone, it
    // carries every contribution. Retransmits add to this, depending on the load of the machine.
    let load = |contender| row(&report, contender, 0.0)["link_load"].as_f64().unwrap();
    assert!(load("ours") >= 1.0, "{report}");
    assert!(load("server") >= 8.0, "{report}");
    assert_eq!(row(&report, "ours", 0.01)["seconds"]["runs"], 2);
    assert_eq!(report["gates"], Value::Array(Vec::new()), "not what the limits are for");
    let written = fs::read_to_string(folder.path().join("allreduce.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), report);
    assert!(fs::read_to_string(folder.path().join("allreduce.svg")).unwrap().contains("server alone"));
    match fs::read(folder.path().join("allreduce.png")) {
        Ok(png) => assert!(png.starts_with(b"\x89PNG")),
        // The picture needs fonts, which may be missing on a machine without a desktop.
        Err(_) => assert!(stderr(&output).contains("fonts-dejavu-core"), "{}", stderr(&output)),
    }
    assert_eq!(labs::traces(&labs), Vec::<String>::new());
}

#[test]
fn many_tensors_are_compared_with_one_and_nothing_stays() {
    if !labs::can_be_made() {
        return;
    }
    // Times are not checked here, because other tests may be running.
    let options = ["overlap", "--size", "64KiB", "--tensors", "8", "--rounds", "1", "--json"];
    let bench = start_command(&options);
    let labs = labs_of(&bench);
    let output = bench.wait_with_output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!((&report["workers"], &report["parts"]["runs"]), (&8.into(), &1.into()));
    let small = &report["small"];
    assert!(
        small["client_overhead_seconds"]["median"].as_f64() < small["seconds"]["median"].as_f64(),
        "{small}"
    );
    assert_eq!(labs::traces(&labs), Vec::<String>::new());
}

#[test]
fn a_comparison_that_is_stopped_leaves_nothing() {
    if !labs::can_be_made() {
        return;
    }
    let mut bench = start(&["--rounds", "100000", "--loss", "0", "--contenders", "leaf,server"]);
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
    // Both networks are up, and the next round is in progress.
    assert!(lines.any(|line| line.unwrap().contains("round 2 of 100000: server alone")));
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    let said = lines.map(Result::unwrap).last().unwrap_or_default();
    let (labs, output) = (labs_of(&bench), bench.wait_with_output().unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted; the networks are removed"), "{said}");
    assert_eq!(labs::traces(&labs), Vec::<String>::new());
}

#[test]
fn a_contender_that_is_not_installed_is_left_out_and_named() {
    if !labs::can_be_made() {
        return;
    }
    let options = ["--contenders", "ours,gloo", "--python", "/nonexistent/python", "--loss", "0"];
    let quick = ["allreduce", "--rate", "1gbit", "--size", "4KiB", "--rounds", "1"];
    let output = BENCH.run(&[&quick[..], &options].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for word in ["left out: gloo", "/nonexistent/python", "make bench-tools"] {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_comparison_of_nonsense_is_refused() {
    let refuse = |option: &str, value: &str, word: &str| {
        BENCH.refused(&["allreduce", option, value], 2, &[option, word]);
    };
    refuse("--rate", "0mbit", "rate above 0");
    refuse("--rate", "fast", "50mbit");
    refuse("--loss", "60%", "probability");
    refuse("--loss", "a%", "probability");
    refuse("--contenders", "nccl", "openmpi-ring");
    refuse("--size", "1001", "whole number");
    BENCH.refused(&["allreduce", "--topology", "none.toml"], 1, &["none.toml"]);
    let losses_of_others = ["allreduce", "--contenders", "server", "--loss", "1%"];
    BENCH.refused(
        &losses_of_others,
        1,
        &["nothing to measure", "`leaf` and `server` are measured without losses only"],
    );
}

#[test]
fn the_help_of_every_command_fits_80_columns() {
    let Some(seen) = terminal::commands_whose_help_fits(BENCH) else { return };
    assert!(seen > 12, "only {seen} commands were found");
}

#[test]
fn a_reader_that_stops_is_no_error_and_a_full_disk_is_one_without_a_panic() {
    let simulate = ["simulate", "--loss", "0", "--values", "1000"].map(str::to_owned);
    terminal::assert_survives_lost_output(BENCH, &simulate);
}

#[test]
fn labs_need_the_program_tributary_and_the_error_says_where() {
    let none = "/nonexistent/tributary";
    let refused = BENCH.command(&["agent"]).env("TRIBUTARY_BINARY", none).output().unwrap();
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(none) && said.contains("TRIBUTARY_BINARY"), "{said}");
    // A program, but another one.
    let refused = BENCH.command(&["agent"]).env("TRIBUTARY_BINARY", "/bin/true").output().unwrap();
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("/bin/true is not the program `tributary`"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join(BENCH.name());
    fs::copy(BENCH.path(), &alone).unwrap();
    let refused = Command::new(&alone).arg("agent").env_remove("TRIBUTARY_BINARY").output().unwrap();
    let (said, beside) = (stderr(&refused), folder.path().join("tributary"));
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(beside.to_str().unwrap()) && said.contains("TRIBUTARY_BINARY"), "{said}");
}
