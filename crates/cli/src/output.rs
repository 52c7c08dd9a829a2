//! Output for people.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use console::Term;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Prints a text and a line's end. A reader that has stopped, as `head` does, is not an error.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(text: impl Display) -> Result<()> {
    print_while_read(text).map(|_| ())
}

/// Prints like [`print()`]; returns `Break` if the reader has stopped.
///
/// For commands that would otherwise never end.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_while_read(text: impl Display) -> Result<ControlFlow<()>> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        written => written.context("cannot write to standard output").map(ControlFlow::Continue),
    }
}

/// Prints a text beside the output, on standard error.
/// Ignores failures, because they cannot be reported.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns true if standard output may still have a reader; `false` once a pipe's other end is closed.
///
/// For commands that have nothing to print for a long time.
pub fn is_read() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    // An error says nothing of the reader.
    let closed = poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
    !(closed && ends[0].revents().contains(PollFlags::ERR))
}

/// Wraps sentences at the width of the terminal; if the output is not a terminal, returns them
/// unchanged.
pub fn sentences(text: &str) -> String {
    match Term::stdout().size_checked() {
        Some((_, columns)) => textwrap::fill(text, usize::from(columns)),
        None => text.to_owned(),
    }
}

/// Returns a table with a header and left-aligned columns. Wraps cells to the width of a terminal.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

/// A table whose columns, except the first, are right-aligned numbers.
pub fn number_table(header: &[&str]) -> Table {
    let mut table = table(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The same table, in which only headers are wrapped, and between words: a number on
/// two lines is not read as one.
pub fn with_whole_words(mut table: Table) -> Table {
    let columns = table.column_iter().count();
    let mut widths = vec![0; columns];
    for (width, cell) in
        widths.iter_mut().zip(table.header().into_iter().flat_map(|header| header.cell_iter()))
    {
        *width = cell.content().split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    }
    for row in table.row_iter() {
        for (width, cell) in widths.iter_mut().zip(row.cell_iter()) {
            *width = cell.content().chars().count().max(*width);
        }
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        let padded = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(column.padding_width());
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(padded)));
    }
    table
}
