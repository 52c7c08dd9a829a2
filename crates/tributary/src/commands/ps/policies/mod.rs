//! `tributary ps compare policies`: measures the results of each synchronisation policy in the same
//! time.

mod report;

use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tokio::runtime::Runtime;
use tributary_cli::output;
use tributary_codec::Kind;
use tributary_trainer::Digits;

use super::experiment::{self, Experiment, ExperimentResult};
use super::gates;
use super::options::{self, Policy};
use super::timeline;
use report::{PolicyReport, PolicyRow};
use tributary_picture::PictureFile;

/// Step times of the workers, relative to the fastest worker.
pub(super) const STEP_TIMES: [f64; 8] = [1.0, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0];
/// Iterations of one worker that count as an epoch: about one pass over the worker's share of the
/// images.
pub(super) const EPOCH: NonZeroU64 = NonZeroU64::new(10).unwrap();
/// A learning rate at which asynchronous training already suffers and the other policies do not.
///
/// It shows the effect of staleness, and is not a fair comparison. In `docs/results/policies-digits`
/// each policy has the rate that suits it.
const LEARNING_RATE: &str = "0.25";
const POLICIES: [Policy; 4] = [Policy::Bsp, Policy::Asp, Policy::Ssp, Policy::A2s];

/// Trains the demo's network with each policy for the same time: 8 workers with step times of 1, 1,
/// 1.1, 1.2, 1.5, 2, 3 and 4 units, real gradients over real TCP on loopback. Exits with 1 if adaptive
/// synchronisation misses one of its limits.
#[derive(Debug, Clone, Args)]
pub(super) struct PoliciesArgs {
    /// Time that the fastest worker takes for a gradient, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0.05", value_parser = options::seconds)]
    step_time: Duration,

    /// Duration of each training
    #[arg(long, default_value = "12", value_parser = options::seconds)]
    seconds: Duration,

    /// Trainings with each policy, from different initial weights; the table holds their means
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// The learning rate at the start; it falls by 1 % in each epoch
    #[arg(long, default_value = LEARNING_RATE, value_parser = options::learning_rate)]
    learning_rate: f32,

    /// Also draw each worker's computing and waiting times, with each policy and the first seed
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    plot: Option<PictureFile>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Compares the policies and prints the results.
///
/// # Errors
/// A gate failed, or a training could not continue.
pub(super) fn run(args: &PoliciesArgs) -> Result<()> {
    args.plot.as_ref().map_or(Ok(()), PictureFile::check)?;
    let digits = Digits::embedded()?;
    let runtime = Runtime::new().context("cannot start the threads that the workers need")?;
    let trainings = POLICIES.len() as u64 * args.seeds;
    let progress = options::progress(args.seconds.mul_f64(trainings as f64));
    let mut outcomes: Vec<Vec<ExperimentResult>> = POLICIES.iter().map(|_| Vec::new()).collect();
    let mut before = Duration::ZERO;
    // All policies run with one seed before the next seed, so that disturbances on the machine affect all
    // policies in the same way.
    for seed in 1..=args.seeds {
        for (policy, outcomes) in POLICIES.into_iter().zip(&mut outcomes) {
            progress.set_message(format!("{}, seed {seed}", policy.name()));
            let millis = |passed: Duration| u64::try_from((before + passed).as_millis()).unwrap_or(u64::MAX);
            let tick = |passed| progress.set_position(millis(passed));
            let experiment = experiment(args, policy, seed);
            let outcome = runtime.block_on(experiment::run(&experiment, &digits, tick));
            outcomes.push(outcome.with_context(|| format!("{} with seed {seed}", policy.name()))?);
            before += args.seconds;
        }
    }
    progress.finish_and_clear();
    let rows = POLICIES.into_iter().zip(&outcomes).map(|(policy, outcomes)| PolicyRow::new(policy, outcomes));
    let report = PolicyReport::new(rows.collect())?;
    if args.json {
        output::print(serde_json::to_string_pretty(&report)?)?;
    } else {
        output::print(report.text())?;
    }
    if let Some(file) = &args.plot {
        let first = POLICIES.into_iter().zip(outcomes.iter().filter_map(|outcomes| outcomes.first()));
        let named = first.map(|(policy, outcome)| (format!("{}, seed 1", policy.name()), outcome));
        file.write(&timeline::picture(&named.collect::<Vec<_>>()))?;
    }
    gates::check(&report.gates)
}

fn experiment(args: &PoliciesArgs, policy: Policy, seed: u64) -> Experiment {
    Experiment {
        policy: policy.into(),
        codec: Kind::None,
        parameters_codec: Kind::None,
        step_times: STEP_TIMES.iter().map(|time| args.step_time.mul_f64(*time)).collect(),
        length: args.seconds,
        learning_rate: args.learning_rate,
        epoch: EPOCH,
        seed,
    }
}
