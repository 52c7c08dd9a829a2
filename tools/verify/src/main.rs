//! `make verify`: checks the protocol exhaustively, then checks that it finds planted bugs.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use indicatif::ProgressBar;
use tributary_verify::{Progress, Row, check, everything, table};

/// The interval between progress reports if the output is not a terminal.
const PERIOD: Duration = Duration::from_secs(10);

/// Checks the protocol's state machines in every state that a network can cause by lost, duplicated,
/// reordered and late packets, and by any number of switch reboots
#[derive(Debug, Parser)]
struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let (mut rows, mut told) = (Vec::new(), Instant::now());
    for setup in everything() {
        let mut show = |at: Progress| {
            let Progress { states, waiting, to_complete } = at;
            let how_far = format!("{states} states, {waiting} to look at, {to_complete} to complete");
            if bar.is_hidden() && told.elapsed() > PERIOD {
                told = Instant::now();
                eprintln!("{how_far}");
            }
            bar.set_message(how_far);
            bar.tick();
        };
        let row = Row { outcome: check(&setup, &mut show)?, setup };
        if !arguments.json {
            bar.suspend(|| tell(&row));
        }
        rows.push(row);
    }
    bar.finish_and_clear();
    if arguments.json {
        println!("{}", serde_json::to_string(&rows)?);
    } else {
        println!("{}", table(&rows));
    }
    Ok(if rows.iter().all(Row::is_as_expected) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a result.
fn tell(row: &Row) {
    match (&row.outcome.found, row.setup.bug) {
        (Some((violation, schedule)), bug) => {
            let bug = bug.map_or("found".to_owned(), |bug| format!("planted {bug:?}, found"));
            println!("{bug}: {violation:?}");
            for (at, line) in schedule.iter().enumerate() {
                println!("  {}. {line}", at + 1);
            }
        }
        (None, Some(bug)) => println!("planted {bug:?}, NOT found"),
        (None, None) => {
            println!("{} states in {} s: nothing found", row.outcome.states, row.outcome.seconds);
        }
    }
}
