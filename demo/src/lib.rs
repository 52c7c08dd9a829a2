//! `tributary demo`: the whole system in one process, over the same interfaces as on a real network.
//!
//! Embedded switches serve P4Runtime on loopback TCP, the controller sets them up, the server and the workers
//! join through the controller's API, and trainers all-reduce their gradients through the workers' agents.

mod args;
mod judge;
mod members;
mod network;
mod report;
mod running_job;
mod table;
mod training;

use std::time::Instant;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tributary_trainer::{Digits, PARAMETERS, Training, train_on_one_machine};

pub use args::DemoArgs;
pub use network::DemoNetwork;
use report::Report;
use running_job::{Measured, RunningJob};
use training::Outcome;

use tributary_cli::drawing::drawing;
use tributary_cli::options::load_topology;

/// Runs the demo and prints what it found.
///
/// # Errors
/// Wrong input, something that cannot start, or an all-reduce that failed.
pub fn run(args: &DemoArgs) -> Result<()> {
    let topology = load_topology(args.topology.as_deref())?;
    let Ok(workers) = u16::try_from(topology.workers().len()) else { bail!("65,535 workers are the most") };
    let training = Training::new(workers, args.rounds, args.seed)?;
    let digits = Digits::embedded()?;

    let runtime = Runtime::new()?;
    let session = runtime.block_on(RunningJob::start(args, topology))?;
    if !args.json {
        println!("{}", drawing(session.plan()));
    }
    let bar = progress_bar(args.rounds);
    let started = Instant::now();
    let outcome =
        training::train(&training, &digits, &session.members.workers, session.plan().width, || bar.inc(1));
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let Outcome { model, verdict } = outcome?;
    let Measured { bytes, retransmissions, slots, server, counters, expected } =
        runtime.block_on(session.finish())?;

    let alone = train_on_one_machine(&training, &digits)?;
    let report = Report {
        workers: usize::from(workers),
        rounds: args.rounds,
        values_per_round: PARAMETERS,
        identical_on_all_workers: verdict.identical,
        max_relative_error: verdict.max_relative_error,
        accuracy: model.accuracy(&digits.held_out),
        accuracy_one_machine: alone.accuracy(&digits.held_out),
        bytes,
        bound: expected.bound.times(args.rounds),
        retransmissions,
        slots,
        server,
        seconds,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        table::print(&report, &expected.plain, &counters);
    }
    Ok(())
}

/// A progress bar on standard error, shown only on a terminal.
fn progress_bar(rounds: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("training {bar:40} round {pos}/{len}  {per_sec}  {eta} left");
    let bar = ProgressBar::new(rounds.into());
    // The template is a constant; were it wrong, the default style would do.
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
