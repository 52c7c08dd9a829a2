//! Prints a sweep's rows for people.

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use crate::sweep::Row;

/// Renders rows as a table, without colours.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header([
        "loss",
        "window",
        "downlink",
        "late",
        "time",
        "to lossless",
        "to ideal",
        "into server",
        "all links",
        "sent again",
        "timeouts",
        "dropped",
    ]);
    for row in rows {
        table.add_row([
            format!("{:.1} %", row.loss * 100.0),
            row.window.to_string(),
            row.downlink.to_owned(),
            format!("{} ms", row.late_ms),
            format!("{:.2} s", row.seconds),
            if row.to_lossless.is_finite() { format!("{:.2}", row.to_lossless) } else { "-".to_owned() },
            format!("{:.2}", row.to_ideal),
            format!("{:.1} MB", row.bytes_into_server / 1e6),
            format!("{:.0} MB", row.bytes_on_all_links / 1e6),
            format!("{:.1} %", row.retransmitted * 100.0),
            format!("{:.0}", row.timeouts),
            format!("{:.0}", row.dropped),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
