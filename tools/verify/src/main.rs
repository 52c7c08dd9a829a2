//! `make verify`: checks the protocol exhaustively, then checks that it finds planted bugs.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use indicatif::ProgressBar;
use tributary_verify::{Bug, Change, Progress, Row, Setup, check, everything, table};

/// The interval between progress reports if the output is not a terminal.
const PERIOD: Duration = Duration::from_secs(10);

/// Checks the protocol's state machines in every state that a network can cause by lost, duplicated,
/// reordered and late packets, and by any number of switch reboots
#[derive(Debug, Parser)]
struct Arguments {
    /// Workers under each leaf switch
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    leaves: Vec<u8>,

    /// No switch between the leaves and the server
    #[arg(long)]
    no_spine: bool,

    /// Slices in flight at once: a power of two
    #[arg(long)]
    window: Option<u32>,

    /// SUM slices of each operation; each has one MAX slice in front
    #[arg(long, value_delimiter = ',')]
    operations: Vec<usize>,

    /// Change the generation at some time
    #[arg(long, value_enum)]
    change: Option<Change>,

    /// Plant a bug
    #[arg(long, value_enum)]
    bug: Option<Bug>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn asked(arguments: &Arguments) -> Vec<Setup> {
    let Arguments { leaves, no_spine, window, operations, change, bug, .. } = arguments;
    if window.is_none() && operations.is_empty() && change.is_none() && bug.is_none() && !no_spine {
        return everything();
    }
    vec![Setup {
        leaves: leaves.clone(),
        spine: !no_spine,
        window: window.unwrap_or(2),
        operations: if operations.is_empty() { vec![3] } else { operations.clone() },
        change: change.unwrap_or(Change::None),
        bug: *bug,
    }]
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let (mut rows, mut told) = (Vec::new(), Instant::now());
    for setup in asked(&arguments) {
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
