//! The demo's results as text for users.

use std::collections::BTreeMap;

use comfy_table::Table;
use indicatif::{HumanBytes, HumanCount};
use tributary_api::v1::SwitchCounters;
use tributary_planner::Traffic;

use crate::report::DemoReport;
use tributary_cli::output::number_table;

/// The job's counters with a column each, in the order in which a switch processes a packet.
const REASONS: [&str; 9] = [
    "received",
    "contributed",
    "completed",
    "consumed",
    "duplicate",
    "stale",
    "probe",
    "released",
    "rejected",
];

/// Returns the text with all results. `plain` is the traffic of one round without aggregation in the
/// network.
pub(crate) fn text(report: &DemoReport, plain: &Traffic, counters: &[SwitchCounters]) -> String {
    let DemoReport { rounds, values_per_round, seconds, retransmissions, slots, .. } = report;
    format!(
        "{}\n\n{}\n\n{}\n\n{rounds} rounds of {} values in {seconds:.1} s; {} retransmissions; {} of {} slots released; \
         largest error {:.1e} of a slice's largest input; {} on every worker",
        training(report),
        bytes(report, plain),
        switches(counters),
        HumanCount(*values_per_round as u64),
        HumanCount(*retransmissions),
        HumanCount(slots.released),
        HumanCount(slots.used),
        report.max_relative_error,
        if report.identical_on_all_workers { "the same bits" } else { "NOT the same bits" },
    )
}

fn training(report: &DemoReport) -> Table {
    let percent = |accuracy: f64| format!("{:.2} %", accuracy * 100.0);
    let workers = format!("{} workers over the fabric", report.workers);
    let mut table = number_table(&["held-out images", &workers, "one machine"]);
    table.add_row(["accuracy".to_owned(), percent(report.accuracy), percent(report.accuracy_one_machine)]);
    table
}

fn bytes(report: &DemoReport, plain: &Traffic) -> Table {
    let rounds = u64::from(report.rounds);
    let size = |bytes: u64| HumanBytes(bytes).to_string();
    let mut table =
        number_table(&["bytes", "into the server", "out of the server", "busiest link", "all links"]);
    let busiest = plain.links.iter().map(|link| link.bytes).max().unwrap_or(0);
    let [into, out, busiest, all] =
        [plain.into_server, plain.out_of_server, busiest, plain.all_links].map(|bytes| size(bytes * rounds));
    table.add_row(["without aggregation (expected)".to_owned(), into, out, busiest, all]);
    let carried = &report.bytes;
    let [into, out, busiest, all] =
        [carried.into_server, carried.out_of_server, carried.busiest_link, carried.all_links].map(size);
    table.add_row(["this run".to_owned(), into, out, busiest, all]);
    let bound = &report.bound;
    let [into, all] = [bound.into_server, bound.all_links].map(size);
    table.add_row(["lower bound (each value once a link)".to_owned(), into.clone(), into.clone(), into, all]);
    table
}

fn switches(counters: &[SwitchCounters]) -> Table {
    let mut header = vec!["packets of the job"];
    header.extend(REASONS);
    let mut table = number_table(&header);
    for switch in counters {
        let mut row = vec![switch.name.clone()];
        let by_reason: BTreeMap<&str, u64> =
            switch.jobs.iter().map(|counter| (counter.reason.as_str(), counter.packets)).collect();
        row.extend(REASONS.map(|reason| HumanCount(by_reason.get(reason).copied().unwrap_or(0)).to_string()));
        table.add_row(row);
    }
    table
}
