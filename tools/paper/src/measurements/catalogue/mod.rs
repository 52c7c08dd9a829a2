//! The catalogue of measurements, by part.

mod all_reduce;
mod cluster;
mod training;

use super::rows::ReportRow;
use super::{MeasuredCommand, Measurement, Shown, Table};

pub(crate) use all_reduce::{AGENT, ALLREDUCE, FORWARDING, LOSSES, MPI, OVERLAP, SWITCH, TAGS};
pub(crate) use cluster::{PLAN, SCALE};
pub(crate) use training::{CODECS_ALONE, DEGRADED, POLICIES_ONE_RATE, PYTORCH, TIME_POINTS};

/// A command without any output but tables; a base for struct updates.
const RUN: MeasuredCommand =
    MeasuredCommand { heading: "", line: "", report: None, pictures: &[], tables: &[] };

/// The limits that a command checks itself.
const GATES: Table = Table {
    csv: None,
    rows: "gates.*",
    shown: Shown::Columns(&[
        ("requirement", |row| row.text("name")),
        ("measured", |row| format!("{:.3}", row.number("value"))),
        ("limit", |row| row.text("limit")),
        ("", |row| verdict(row, "passed")),
    ]),
};

fn verdict(row: &ReportRow, kept: &str) -> String {
    if row.is(kept) { "met" } else { "**missed**" }.to_owned()
}

fn milliseconds(seconds: f64) -> String {
    let time = seconds * 1e3;
    match time.abs() {
        100.0.. => format!("{time:.0}"),
        10.0.. => format!("{time:.1}"),
        _ => format!("{time:.2}"),
    }
}

fn per_cent(share: f64, digits: usize) -> String {
    let rounded = format!("{:.digits$}", share * 100.0);
    // A figure just below zero is shown as "0", not "-0".
    let is_zero = rounded.parse() == Ok(0.0);
    format!("{} %", if is_zero { rounded.trim_start_matches('-') } else { &rounded })
}

/// Formats a median, with the least and the greatest value.
fn spread(row: &ReportRow, figure: &str, digits: usize, factor: f64) -> String {
    let of = |what: &str| factor * row.number(&format!("{figure}.{what}"));
    format!("{:.digits$} ({:.digits$} to {:.digits$})", of("median"), of("min"), of("max"))
}

/// Formats a ratio of medians, with the least and the greatest ratio of a round.
fn ratio(row: &ReportRow, figure: &str) -> String {
    let of = |what: &str| row.number(&format!("{figure}.{what}"));
    format!("{:.2} ({:.2} to {:.2})", of("of_medians"), of("min"), of("max"))
}

/// Formats each figure of a list with `said`, and joins them with `between`.
fn list(row: &ReportRow, figures: &str, between: &str, said: fn(f64) -> String) -> String {
    let figures = row.text(figures);
    figures.split(' ').filter_map(|figure| figure.parse().ok()).map(said).collect::<Vec<_>>().join(between)
}
