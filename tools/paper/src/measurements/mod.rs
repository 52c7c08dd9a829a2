//! Runs the product's measuring commands as a user runs them, and makes a page of their JSON.

mod catalogue;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::results::{Cells, Results};
pub(crate) use catalogue::*;
use rows::ReportRow;

/// A part of the results whose figures come from commands.
pub(crate) struct Measurement {
    title: &'static str,
    said: &'static str,
    runs: &'static [MeasuredCommand],
}

/// A command, and the parts of its report that the page shows.
struct MeasuredCommand {
    heading: &'static str,
    /// The command line, without quotes.
    /// `tributary`, `tributary-bench` and `python` come from [`Programs`]; FOLDER is a temporary folder.
    line: &'static str,
    /// The file in FOLDER with the command's JSON; `None` if the JSON is on standard output.
    report: Option<&'static str>,
    /// Pictures that the command leaves in FOLDER, with their names on the page.
    pictures: &'static [(&'static str, &'static str)],
    tables: &'static [Table],
}

/// Rows of a report. The CSV file has all of their figures, and the page has some of them.
struct Table {
    /// The name of the CSV file, without its ending; `None` if the page shows all figures of the rows.
    csv: Option<&'static str>,
    /// The path of the rows in the report, for [`rows::of`].
    rows: &'static str,
    shown: Shown,
}

/// Makes the text of one cell of the page.
type Cell = fn(&ReportRow) -> String;

enum Shown {
    /// A table with a column for each of these figures, and a line for each row.
    Columns(&'static [(&'static str, Cell)]),
    /// A table with a column for each value of `across`, and a line for each value of `down`.
    Pivot { corner: &'static str, down: Cell, across: Cell, cell: Cell },
}

/// The programs that the commands run.
pub(crate) struct Programs<'a> {
    /// The binary to measure. `tributary-bench` is in the same folder.
    pub(crate) tributary: &'a Path,
    /// The command of a Python with PyTorch.
    pub(crate) python: &'a str,
}

impl Measurement {
    /// Runs all commands, and writes the part's folder.
    ///
    /// # Errors
    /// A command cannot be started or writes no report, or a file cannot be written.
    pub(crate) fn study(&self, part: &str, programs: &Programs<'_>, out: &Path) -> Result<()> {
        let mut results = Results::start(out, part, self.title, self.said)?;
        for run in self.runs {
            let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
            let (report, missed) = run.report(programs, scratch.path())?;
            results.section(run.heading, &format!("`{}`{missed}", run.line));
            for table in run.tables {
                table.show(&report, &mut results).with_context(|| run.line)?;
            }
            for (made, name) in run.pictures {
                results.picture(&scratch.path().join(made), name, &format!("{}: {name}", run.heading))?;
            }
        }
        results.finish()
    }
}

impl MeasuredCommand {
    /// Runs the command. Returns its JSON, and a note if the command missed one of its limits.
    fn report(&self, programs: &Programs<'_>, scratch: &Path) -> Result<(Value, &'static str)> {
        eprintln!("{}", self.line);
        let mut command = self.command(programs, scratch);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let said = match self.report {
            Some(file) => fs::read(scratch.join(file)).with_context(|| format!("{file} was not written"))?,
            None => output.stdout,
        };
        let report = serde_json::from_slice(&said)
            .with_context(|| format!("{} ended with {} and no report", self.line, output.status))?;
        let missed = if output.status.success() { "" } else { " reported a missed limit." };
        Ok((report, missed))
    }

    fn command(&self, programs: &Programs<'_>, scratch: &Path) -> Command {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (tributary, python) = (absolute(programs.tributary), absolute(Path::new(programs.python)));
        let mut words = self.line.split_whitespace().map(|word| match word {
            "tributary" => tributary.clone().into_os_string(),
            "tributary-bench" => tributary.with_file_name(word).into_os_string(),
            "python" => python.clone().into_os_string(),
            word => word.replace("FOLDER", &scratch.to_string_lossy()).into(),
        });
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .env("TRIBUTARY_BINARY", &tributary)
            .env("TRIBUTARY_BENCH_PYTHON", &python)
            .current_dir(repository);
        command
    }
}

/// Returns a program's absolute path.
///
/// A name without a folder is a program on the PATH, and is returned unchanged.
fn absolute(program: &Path) -> PathBuf {
    let named = program.components().count() == 1;
    if named {
        program.to_owned()
    } else {
        std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
    }
}

impl Table {
    fn show(&self, report: &Value, results: &mut Results) -> Result<()> {
        let rows = rows::of(report, self.rows);
        ensure!(!rows.is_empty(), "the report has no {}", self.rows);
        let (header, cells) = self.shown.of(&rows);
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        results.table(&header, &cells);
        match self.csv {
            Some(name) => results.records(name, &rows::header(&rows), rows.iter().map(ReportRow::cells)),
            None => Ok(()),
        }
    }
}

impl Shown {
    fn of(&self, rows: &[ReportRow]) -> (Cells, Vec<Cells>) {
        match self {
            Self::Columns(columns) => (
                columns.iter().map(|(header, _)| (*header).to_owned()).collect(),
                rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect()).collect(),
            ),
            Self::Pivot { corner, down, across, cell } => {
                let (lines, columns) = (distinct(rows, *down), distinct(rows, *across));
                let find = |line: &String, column: &String| {
                    let row = rows.iter().find(|row| down(row) == *line && across(row) == *column);
                    row.map_or_else(String::new, *cell)
                };
                let of = |line: &String| {
                    [line.clone()]
                        .into_iter()
                        .chain(columns.iter().map(|column| find(line, column)))
                        .collect()
                };
                let cells = lines.iter().map(of).collect();
                ([(*corner).to_owned()].into_iter().chain(columns.iter().cloned()).collect(), cells)
            }
        }
    }
}

/// Returns the different values of a cell, in the order of the first rows that have them.
fn distinct(rows: &[ReportRow], of: Cell) -> Vec<String> {
    let mut all = Vec::new();
    for row in rows {
        let one = of(row);
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}
