//! `tributary bench simulate`: the protocol under loss, on a virtual clock.

#![allow(clippy::unwrap_used)]

mod support;

use support::{json, refused};

const SHORT: [&str; 9] =
    ["bench", "simulate", "--json", "--size", "512KiB", "--loss", "0,0.02", "--seeds", "2"];

#[test]
fn losses_cost_time_and_bytes_and_the_same_ones_each_time() {
    let rows = json(&SHORT);
    let number = |row: usize, field: &str| rows[row][field].as_f64().unwrap();
    assert_eq!(number(0, "to_lossless"), 1.0);
    assert!(number(1, "to_lossless") > 1.0);
    assert!(number(1, "bytes_on_all_links") > number(0, "bytes_on_all_links"));
    assert!(number(1, "retransmissions") > 0.0);
    assert_eq!(rows, json(&SHORT));
}

#[test]
fn a_lossless_fabric_is_as_fast_as_its_links() {
    let rows = json(&SHORT);
    let to_ideal = rows[0]["to_ideal"].as_f64().unwrap();
    // Headers are 7 %, and the first slice has a round trip to go.
    assert!((1.07..1.3).contains(&to_ideal), "{to_ideal}");
}

#[test]
fn impossible_options_are_refused() {
    refused(&["bench", "simulate", "--loss", "2"], 2, &["--loss", "probability"]);
    refused(&["bench", "simulate", "--window", "3"], 2, &["--window", "power of two"]);
}
