//! `tributary ps run`: runs one policy, with detailed results.

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tokio::runtime::Runtime;
use tributary_cli::output;
use tributary_codec::Kind;
use tributary_trainer::Digits;

use super::experiment::{self, Experiment, ExperimentResult};
use super::options::{self, Policy};
use super::timeline;
use crate::daemons::service::WrongUse;
use tributary_cli::output::number_table;
use tributary_picture::PictureFile;

/// Trains the demo's network over a parameter server with emulated workers: a server and all workers in
/// this process, real gradients over real TCP on loopback, for a given time.
#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    /// Policy of synchronisation: when gradients are used, and when workers continue
    #[arg(long, value_enum, default_value_t = Policy::A2s)]
    policy: Policy,

    #[arg(long, help = options::codecs(), default_value = "none", value_parser = options::codec)]
    codec: Kind,

    /// Codec of the parameters that the server sends to workers
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = options::codec)]
    parameters_codec: Kind,

    /// Number of workers [default: as many as --speeds, or 8]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,

    /// Each worker's step time, relative to --step-time; repeated in turn if there are more workers
    #[arg(long, value_name = "TIME,TIME,…", value_delimiter = ',', value_parser = options::speed,
          default_values_t = super::policies::STEP_TIMES)]
    speeds: Vec<f64>,

    /// Time that a worker of speed 1 takes for a gradient, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.04", value_parser = options::seconds)]
    step_time: Duration,

    /// Duration of the training
    #[arg(long, default_value = "10", value_parser = options::seconds)]
    seconds: Duration,

    /// The learning rate at the start; it falls by 1 % in each epoch
    #[arg(long, default_value = "0.1", value_parser = options::learning_rate)]
    learning_rate: f32,

    /// Iterations of one worker that count as an epoch
    #[arg(long, default_value_t = super::policies::EPOCH)]
    epoch: NonZeroU64,

    /// Seed of the initial weights and of the order of the images
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Also draw each worker's computing and waiting times
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    plot: Option<PictureFile>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
struct RunReport {
    policy: &'static str,
    codec: String,
    accuracy: f64,
    staleness: f64,
    idle: f64,
    iterations: u64,
    updates: u64,
    workers: Vec<WorkerRow>,
}

/// The results of one worker.
#[derive(Debug, Serialize)]
struct WorkerRow {
    worker: usize,
    step_seconds: f64,
    iterations: usize,
    /// Share of the time that the worker waited, from 0 to 1.
    idle: f64,
}

/// Runs the experiment and prints the results.
///
/// # Errors
/// Options contradict each other, or a server or a worker cannot continue.
pub(super) fn run(args: &RunArgs) -> Result<()> {
    let workers = args.workers.map_or(args.speeds.len(), usize::from);
    if workers < args.speeds.len() && args.workers.is_some() && args.speeds != super::policies::STEP_TIMES {
        let problem = format!(
            "{} --speeds for {workers} --workers: give at most one speed for each worker",
            args.speeds.len()
        );
        return Err(WrongUse(problem).into());
    }
    args.plot.as_ref().map_or(Ok(()), PictureFile::check)?;
    let experiment = Experiment {
        policy: args.policy.into(),
        codec: args.codec,
        parameters_codec: args.parameters_codec,
        step_times: args.speeds.iter().cycle().take(workers).map(|s| args.step_time.mul_f64(*s)).collect(),
        length: args.seconds,
        learning_rate: args.learning_rate,
        epoch: args.epoch,
        seed: args.seed,
    };
    let progress = options::progress(args.seconds).with_message(format!("training ({})", args.policy.name()));
    let tick =
        |passed: Duration| progress.set_position(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
    let digits = Digits::embedded()?;
    let runtime = Runtime::new().context("cannot start the threads that the workers need")?;
    let outcome = runtime.block_on(experiment::run(&experiment, &digits, tick));
    progress.finish_and_clear();
    let outcome = outcome?;
    let report = report(args, &experiment, &outcome);
    if args.json {
        output::print(serde_json::to_string_pretty(&report)?)?;
    } else {
        output::print(text(&report))?;
    }
    match &args.plot {
        Some(file) => Ok(file.write(&timeline::picture(&[(args.policy.name().to_owned(), &outcome)]))?),
        None => Ok(()),
    }
}

fn report(args: &RunArgs, experiment: &Experiment, outcome: &ExperimentResult) -> RunReport {
    let record = &outcome.record;
    let worker = |(worker, time): (usize, &Duration)| WorkerRow {
        worker,
        step_seconds: time.as_secs_f64(),
        iterations: record.iterations(worker),
        idle: record.idle(worker),
    };
    RunReport {
        policy: args.policy.name(),
        codec: args.codec.to_string(),
        accuracy: outcome.accuracy,
        staleness: outcome.staleness,
        idle: record.mean_idle(),
        iterations: outcome.iterations,
        updates: outcome.updates,
        workers: experiment.step_times.iter().enumerate().map(worker).collect(),
    }
}

fn text(report: &RunReport) -> String {
    let mut table = number_table(&["worker", "step", "iterations", "idle"]);
    for worker in &report.workers {
        table.add_row([
            worker.worker.to_string(),
            format!("{:.0} ms", 1e3 * worker.step_seconds),
            worker.iterations.to_string(),
            format!("{:.1} %", 100.0 * worker.idle),
        ]);
    }
    format!(
        "{table}\n{}: accuracy {:.2} %, staleness {:.2}, idle {:.1} %, {} iterations in {} updates",
        report.policy,
        100.0 * report.accuracy,
        report.staleness,
        100.0 * report.idle,
        report.iterations,
        report.updates
    )
}
