//! The table of results.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use crate::check::CheckOutcome;
use crate::setup::{Change, Setup};
use crate::violation::Violation;

/// One check, and its results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The checked setup.
    #[serde(flatten)]
    pub setup: Setup,
    /// The results.
    #[serde(flatten)]
    pub outcome: CheckOutcome,
}

impl Row {
    /// Returns true if the results are as expected: a violation if a bug was planted, otherwise none.
    pub fn is_as_expected(&self) -> bool {
        self.outcome.found.is_some() == self.setup.bug.is_some()
    }
}

/// Describes the setup in a few words.
fn job(setup: &Setup) -> String {
    let leaves: Vec<String> = setup.leaves.iter().map(u8::to_string).collect();
    let spine = if setup.spine { " + spine" } else { "" };
    let sums: Vec<String> = setup.operations.iter().map(|sums| format!("1+{sums}")).collect();
    let change = match setup.change {
        Change::None => "",
        Change::Replan => ", new generation",
        Change::Leave => ", a member leaves",
    };
    let leaves = leaves.join("+");
    format!("{leaves}{spine}, S={}, slices {}{change}", setup.window, sums.join(" "))
}

/// Formats a table of checks.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let head = [
        "workers under leaves",
        "bug",
        "states",
        "steps",
        "depth",
        "complete from",
        "s",
        "sums",
        "slots",
        "ends",
    ];
    table.set_header(head);
    for Row { setup, outcome } in rows {
        let found = outcome.found.as_ref().map(|(violation, _)| violation);
        let verdict = |is: bool, checked: bool| match (is, checked) {
            (true, _) => "violated",
            (false, true) => "holds",
            (false, false) => "–",
        };
        let whole = found.is_none();
        let sums = matches!(found, Some(Violation::WrongSum { .. } | Violation::Failed { .. }));
        let slots = matches!(found, Some(Violation::Touched { .. }));
        let stuck = matches!(found, Some(Violation::Stuck));
        let bug = setup.bug.map_or("none".to_owned(), |bug| format!("{bug:?}"));
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(job(setup)),
            Cell::new(bug),
            right(outcome.states.to_string()),
            right(outcome.steps.to_string()),
            right(outcome.depth.to_string()),
            right(outcome.completing.to_string()),
            right(format!("{:.1}", outcome.seconds)),
            Cell::new(verdict(sums, whole || stuck)),
            Cell::new(verdict(slots, whole || stuck)),
            Cell::new(verdict(stuck, whole)),
        ]);
    }
    table.to_string()
}
