//! Formats a comparison for people.

use std::fmt::Write as _;

use bytesize::ByteSize;
use comfy_table::{CellAlignment, Table};
use tributary_bench::comparison::{ComparisonReport, Contender, Gate, Row};
use tributary_topology::format_rate;

use tributary_cli::output::number_table;

/// Formats the whole report as text.
pub(super) fn text(report: &ComparisonReport) -> String {
    let setting = &report.setting;
    let mut text = format!(
        "all-reduce of {} of {} over {} workers, topology {}, MTU {}; {} turns of {}; every sum is right\n{}\n",
        ByteSize(setting.bytes),
        setting.elements.name(),
        setting.workers,
        setting.topology,
        setting.mtu,
        setting.rounds,
        setting.iterations,
        rows(report),
    );
    let ring = report.ring_bound();
    let _ = writeln!(
        text,
        "bare: time in units of the tensor's time on one link; without aggregation in the network, an all-reduce \
         takes at least {ring:.2}\n\
         load: bytes on the busiest link, in units of the tensor; busy: share of the time in which that link sent, \
         and in which the processors worked"
    );
    for skipped in &setting.skipped {
        let title = skipped.contender.title();
        let _ = match &skipped.install {
            Some(install) => {
                writeln!(text, "left out: {title} ({}); `{install}` installs it", skipped.reason)
            }
            None => writeln!(text, "left out: {title} ({})", skipped.reason),
        };
    }
    if setting.machine.build != "release" {
        let _ = writeln!(
            text,
            "this program is a debug build: the times of its own all-reduces are not representative"
        );
    }
    if !report.gates.is_empty() {
        let _ = write!(text, "\n{}", gates(&report.gates));
    }
    text.trim_end().to_owned()
}

fn rows(report: &ComparisonReport) -> Table {
    let header = [
        "links",
        "contender",
        "median",
        "min to max",
        "bare",
        "ours / this",
        "spread",
        "load",
        "link busy",
        "CPU busy",
        "limit",
    ];
    let mut table = number_table(&header);
    for row in &report.rows {
        let (ratio, spread) = ratio(report, row);
        table.add_row([
            format_rate(row.case.rate),
            row.case.to_string(),
            format!("{:.0} ms", row.seconds.median * 1e3),
            format!("{:.0} to {:.0}", row.seconds.min * 1e3, row.seconds.max * 1e3),
            format!("{:.2}", row.to_bare),
            ratio,
            spread,
            format!("{:.2}", row.link_load),
            percent(row.link_share),
            percent(row.processor_share),
            row.limit.to_string(),
        ]);
    }
    if let Some(contenders) = table.column_mut(1) {
        contenders.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// Returns the median and the range of the time of ours relative to a row.
///
/// For ours with losses or over single frames, this is the time relative to ours without.
fn ratio(report: &ComparisonReport, row: &Row) -> (String, String) {
    let ours = row.case.contender == Contender::Ours;
    let found = report.ratios.iter().find(|ratios| {
        let other = if ours { ratios.ours } else { ratios.other };
        other == row.case
    });
    match found {
        Some(found) if !ours || row.case.loss > 0.0 || row.case.single_frames => {
            let ratio = found.ratio;
            (format!("{:.2}", ratio.of_medians), format!("{:.2} to {:.2}", ratio.min, ratio.max))
        }
        _ => ("-".to_owned(), String::new()),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn gates(gates: &[Gate]) -> Table {
    let mut table = number_table(&["requirement", "ratio", "at most", ""]);
    for gate in gates {
        let passed = if gate.passed { "passed" } else { "FAILED" };
        table.add_row([
            gate.name.clone(),
            format!("{:.3}", gate.value),
            gate.limit.to_string(),
            passed.to_owned(),
        ]);
    }
    table
}
