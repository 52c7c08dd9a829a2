//! Measures the gain of each level of aggregation, for the busiest link and for all links.
//!
//! The downlink is the same at each level.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tributary_picture::{Axis, Bars, Chart, OTHERS, OURS};

use crate::results::Results;

/// Levels of aggregation and downlinks.
///
/// Each has its name on `tributary demo`'s command line, and its name in the report.
const LEVELS: [(&str, &str); 4] =
    [("none", "none"), ("leaf", "leaves"), ("two-levels", "two levels"), ("tree", "three levels")];
const DOWNLINKS: [&str; 2] = ["multicast", "unicast"];
const ROUNDS: u32 = 10;
const ATTEMPTS: u32 = 100;
const MIB: f64 = (1 << 20) as f64;

/// The fields of the demo's JSON that this program uses.
#[derive(Debug, Deserialize)]
struct DemoReport {
    identical_on_all_workers: bool,
    retransmissions: u64,
    bytes: Bytes,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
struct Bytes {
    into_server: u64,
    out_of_server: u64,
    busiest_link: u64,
    all_links: u64,
}

/// The results of one run, as a row for programs.
#[derive(Debug, Serialize)]
struct HopsRow {
    aggregation: &'static str,
    downlink: &'static str,
    rounds: u32,
    into_server: u64,
    out_of_server: u64,
    busiest_link: u64,
    all_links: u64,
    busiest_link_gain: f64,
    all_links_gain: f64,
}

/// Runs the demo on three-tier-8 with every number of levels.
///
/// # Errors
/// The demo fails, or a file cannot be written.
pub(crate) fn study(tributary: &Path, out: &Path) -> Result<()> {
    let said = format!(
        "Bytes of whole frames on the links of `topologies/three-tier-8.toml`, counted on the links while `tributary \
         demo` trained for {ROUNDS} rounds: eight workers under four leaves, two switches in the middle and a root, \
         100,234 values a worker and round. *Reduction* compares each row with the run without aggregation and with \
         the same delivery of results. The busiest link is the direction of a link that carried the most bytes."
    );
    let mut results = Results::start(out, "hops", "The gain of each level of aggregation", &said)?;
    let mut rows = Vec::new();
    for downlink in DOWNLINKS {
        let runs = LEVELS.iter().map(|(option, name)| Ok((*name, run(tributary, option, downlink)?)));
        let runs = runs.collect::<Result<Vec<(&str, Bytes)>>>()?;
        let Some(&(_, none)) = runs.first() else { continue };
        rows.extend(runs.iter().map(|&(aggregation, bytes)| HopsRow {
            aggregation,
            downlink,
            rounds: ROUNDS,
            into_server: bytes.into_server,
            out_of_server: bytes.out_of_server,
            busiest_link: bytes.busiest_link,
            all_links: bytes.all_links,
            busiest_link_gain: none.busiest_link as f64 / bytes.busiest_link as f64,
            all_links_gain: none.all_links as f64 / bytes.all_links as f64,
        }));
    }
    let header = [
        "results",
        "aggregated at",
        "into the server",
        "out of the server",
        "busiest link",
        "reduction",
        "all links",
        "reduction",
    ];
    results.table(&header, &rows.iter().map(HopsRow::cells).collect::<Vec<_>>());
    results.chart("bytes", &chart(&rows))?;
    results.csv("bytes", &rows)?;
    results.finish()
}

/// Runs the demo until a run has no retransmissions, because their bytes would count, too.
///
/// On a busy machine, results can arrive too late, so that workers retransmit.
fn run(tributary: &Path, aggregation: &str, downlink: &str) -> Result<Bytes> {
    for _ in 0..ATTEMPTS {
        let report = demo(tributary, aggregation, downlink)?;
        ensure!(report.identical_on_all_workers, "workers got different sums");
        eprintln!("hops: {aggregation}, {downlink}: {} retransmissions", report.retransmissions);
        if report.retransmissions == 0 {
            return Ok(report.bytes);
        }
    }
    bail!("workers retransmitted slices in each of {ATTEMPTS} runs: use a less busy machine");
}

fn demo(tributary: &Path, aggregation: &str, downlink: &str) -> Result<DemoReport> {
    let rounds = ROUNDS.to_string();
    let options =
        ["demo", "--json", "--rounds", &rounds, "--aggregation", aggregation, "--downlink", downlink];
    let output = Command::new(tributary).args(options).output();
    let output = output.with_context(|| format!("cannot start {}", tributary.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the demo failed: {said}");
    serde_json::from_slice(&output.stdout).context("cannot read the JSON of `tributary demo`")
}

impl HopsRow {
    fn cells(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / MIB);
        vec![
            self.downlink.to_owned(),
            self.aggregation.to_owned(),
            mib(self.into_server),
            mib(self.out_of_server),
            mib(self.busiest_link),
            format!("{:.2}", self.busiest_link_gain),
            mib(self.all_links),
            format!("{:.2}", self.all_links_gain),
        ]
    }
}

fn chart(rows: &[HopsRow]) -> Chart {
    let mib = |bytes: u64| bytes as f64 / MIB / f64::from(ROUNDS);
    let most = rows.iter().map(|row| mib(row.all_links)).fold(0.0, f64::max);
    let bars = |name: &str, downlink: &str, figure: fn(&HopsRow) -> u64, color, opacity| Bars {
        name: format!("{name}, {downlink}"),
        color,
        opacity,
        points: (0_u32..)
            .map(f64::from)
            .zip(rows.iter().filter(|row| row.downlink == downlink))
            .map(|(place, row)| (place, mib(figure(row))))
            .collect(),
    };
    Chart {
        title: "Bytes of one all-reduce on three-tier-8, by level of aggregation".to_owned(),
        subtitle: format!("Whole frames, mean of {ROUNDS} rounds of 100,234 values by 8 workers"),
        across: Axis::groups("aggregated at", LEVELS.map(|(_, name)| name.to_owned())),
        up: Axis::even("", 0.0, most, |mib| format!("{mib} MiB")),
        lines: Vec::new(),
        bars: vec![
            bars("busiest link", "multicast", |row| row.busiest_link, OURS, 1.0),
            bars("busiest link", "unicast", |row| row.busiest_link, OURS, 0.5),
            bars("all links", "multicast", |row| row.all_links, OTHERS, 1.0),
            bars("all links", "unicast", |row| row.all_links, OTHERS, 0.5),
        ],
    }
}
