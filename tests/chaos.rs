//! Tests of `tributary-bench chaos`, which disturbs a fabric while a training runs on it. They need
//! root, to inspect labs from outside, and network tools. If these are missing, the tests print that
//! they are skipped.

use std::process::Command;

use serde_json::Value;
use tributary_testkit::binary::{BENCH, stderr};
use tributary_testkit::test_lab::TestLab;

const TWO_WORKERS: &str = "topologies/two-workers.toml";

#[test]
fn chaos_hits_what_it_says_checks_every_sum_and_leaves_nothing() {
    let Some(name) = TestLab::new("chaos") else { return };
    let hits = ["--only", "leaf,link,interface", "--kills", "3", "--outage", "0.05..0.1", "--foreign"];
    let chaos = ["chaos", TWO_WORKERS, "--name", &name.0, "--no-rates", "--size", "64KiB", "--json"];
    // The machine also determines if a member is back in time, and thus the exit status, so the status is
    // not checked.
    let output = BENCH.run(&[&chaos[..], &hits].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["kills"], &report["wrong"]), (&3.into(), &0.into()), "{report}: {}", stderr(&output));
    assert!(report["checked"].as_u64().unwrap() > 0);
    let kills = |kind: &str| report["by_kind"][kind]["kills"].as_u64().unwrap();
    assert_eq!(kills("leaf") + kills("link") + kills("interface"), 3);
    let foreign = |what: &str| report["foreign"][what].as_u64().unwrap();
    assert!(foreign("damaged") == 0 && foreign("received") > 0, "{report}");
    assert!(foreign("received") <= foreign("sent"), "{report}");
    // No member can continue without the only switch, so all members are affected, and all come back.
    assert!(report["by_kind"]["leaf"]["pauses_s"]["median"].is_null());
    assert!(report["by_kind"]["leaf"]["back_s"]["median"].as_f64() > Some(0.0));
    name.is_gone();

    let mut endless = BENCH.start(&["chaos", TWO_WORKERS, "--name", &name.0, "--kills", "1000"]);
    name.wait_until_up();
    Command::new("kill").args(["-INT", &endless.id().to_string()]).status().unwrap();
    assert_eq!(endless.wait().unwrap().code(), Some(1));
    name.is_gone();
}

#[test]
fn chaos_that_makes_no_sense_is_refused() {
    BENCH.refused(&["chaos", TWO_WORKERS, "--only", "middle"], 2, &["two-workers", "none of these"]);
    BENCH.refused(&["chaos", TWO_WORKERS, "--outage", "3..1"], 2, &["0.2..3"]);
    BENCH.refused(&["chaos", TWO_WORKERS, "--size", "1000"], 2, &["multiple of 8.0 KiB"]);
    BENCH.refused(&["chaos", "topologies/none.toml"], 1, &["topologies/none.toml"]);
}
