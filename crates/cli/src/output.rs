//! Output for users.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use console::Term;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Prints a text and a newline. A closed pipe is not an error, because readers such as `head` stop
/// early.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(text: impl Display) -> Result<()> {
    print_while_read(text).map(|_| ())
}

/// Prints like [`print()`]; returns `Break` if the reader has closed the pipe.
///
/// Commands that run without an end use it to stop.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_while_read(text: impl Display) -> Result<ControlFlow<()>> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        written => written.context("cannot write to standard output").map(ControlFlow::Continue),
    }
}

/// Prints a text on standard error. Ignores failures, because they cannot be reported.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns false if standard output is a pipe whose reader has closed it, otherwise true.
///
/// Used by commands that print nothing for a long time.
pub fn is_read() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    // An error of `poll` does not show that the reader is gone.
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

/// Returns a table whose columns, except the first, are right-aligned numbers.
pub fn number_table(header: &[&str]) -> Table {
    let mut table = table(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns the table with a line wrap in headers only, and only between words. A number on two lines
/// would be misread.
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
