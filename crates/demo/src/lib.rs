//! `tributary demo`: the whole system in one process, over the same interfaces as on a real network.
//!
//! Embedded switches serve P4Runtime on loopback TCP, and the controller writes their tables. The
//! aggregation server and the agents are the daemons of `tributary server` and `tributary agent`. The
//! trainers all-reduce their gradients like any training process: with `tributary-client`, through the
//! socket of their host's agent, and in memory that they share with it.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where output cannot be written: `tributary_cli::output` does not"
)]

mod args;
mod cause;
mod hosts;
mod interruption;
mod judge;
mod network;
mod report;
mod running_job;
mod table;
mod training;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tributary_trainer::{Digits, PARAMETERS, Training, train_on_one_machine};

pub use args::DemoArgs;
use interruption::{Interrupted, Interruption};
pub use network::DemoNetwork;
use report::DemoReport;
use running_job::{Measured, RunningJob};
use training::TrainingOutcome;

use tributary_cli::drawing::drawing;
use tributary_cli::options::load_topology;
use tributary_cli::output;

/// Runs the demo, and prints its results or its error. Errors are wrong input, a part that cannot
/// start, or a failed all-reduce.
pub fn run(args: &DemoArgs) -> ExitCode {
    let Err(error) = train_and_compare(args) else { return ExitCode::SUCCESS };
    match error.downcast_ref() {
        Some(Interrupted { status }) => ExitCode::from(*status),
        None => {
            output::complain(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn train_and_compare(args: &DemoArgs) -> Result<()> {
    let topology = load_topology(args.topology.as_deref())?;
    let Ok(workers) = u16::try_from(topology.workers().len()) else { bail!("65,535 workers are the most") };
    let training = Training::new(workers, args.rounds, args.seed)?;
    let digits = Digits::embedded()?;

    let runtime = Runtime::new()?;
    let interruption = runtime.block_on(async { Interruption::listen() })?;
    let session = runtime.block_on(interruption.or(RunningJob::start(args, topology)))?;
    if !args.json {
        output::print(drawing(session.plan()))?;
    }
    let bar = progress_bar(args.rounds);
    let outcome = training::train(&training, &digits, &session, &interruption, || bar.inc(1));
    bar.finish_and_clear();
    let outcome = outcome.map_err(|error| runtime.block_on(session.cause(error)));
    let TrainingOutcome { model, verdict, seconds, stats } = outcome?;
    let Measured { bytes, retransmissions, slots, server, counters, expected } =
        runtime.block_on(interruption.or(session.finish(&stats)))?;

    let alone = train_on_one_machine(&training, &digits)?;
    let report = DemoReport {
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
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(table::text(&report, &expected.plain, &counters))?,
    }
    ensure!(
        report.identical_on_all_workers,
        "workers have sums or models with different bits: this is a defect"
    );
    Ok(())
}

/// Returns a progress bar on standard error, which is shown only on a terminal.
fn progress_bar(rounds: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("training {bar:40} round {pos}/{len}  {per_sec}  {eta} left");
    let bar = ProgressBar::new(rounds.into());
    // The template is a constant and valid. If it were not, the default style would be used.
    style.map_or(bar.clone(), |style| bar.with_style(style))
}
