//! Output for people.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use console::Term;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Prints a text and a line's end. It is no error if the reader has stopped, as `head` does.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(text: impl Display) -> Result<()> {
    print_while_read(text).map(|_| ())
}

/// As [`print`]; `Break` if nobody reads any more, for commands that would print for ever.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print_while_read(text: impl Display) -> Result<ControlFlow<()>> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        written => written.context("cannot write to standard output").map(ControlFlow::Continue),
    }
}

/// Says something beside the output, on standard error. Where that cannot be written to, nobody would hear of it.
pub fn complain(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether somebody may still read standard output: `false` once the other end of a pipe is closed. For commands that
/// have nothing to print for a long time.
pub fn is_read() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    // An error says nothing of the reader.
    let closed = poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
    !(closed && ends[0].revents().contains(PollFlags::ERR))
}

/// Sentences. On a terminal their lines are no longer than that is wide; a program gets them as they are.
pub fn sentences(text: &str) -> String {
    match Term::stdout().size_checked() {
        Some((_, columns)) => textwrap::fill(text, usize::from(columns)),
        None => text.to_owned(),
    }
}

/// A table with a header and left-aligned columns. On a terminal it is no wider than that: cells are wrapped.
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

/// The same table, in which only headers are wrapped, and between words: a number on two lines is not read as one.
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
