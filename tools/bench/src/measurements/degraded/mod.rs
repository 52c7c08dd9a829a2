//! `tributary-bench degraded`: measures the gain of detaching and shrinking.
//!
//! It compares the measured step times with the controller's predictions.

mod device;
mod event;
mod phase;
mod processes;
mod report;
mod worker;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_cli::output;
use tributary_lab::Slowdown;
use tributary_topology::Topology;

use phase::{Goal, Phase, Spec, Stage};
use report::{DegradedReport, DeviceParameters};
use tributary::lab::{FabricArgs, up_fabric};
use tributary::{Stop, WrongUse};
pub(crate) use worker::{DegradedWorkerArgs, run as run_worker};

/// Number of workers for which the phases are written.
const WORKERS: usize = 8;
/// The share of one of eight workers.
const ONE: f64 = 1.0 / WORKERS as f64;
/// A θ slightly below [`ONE`], so that the share of one slow worker exceeds it.
const BELOW_ONE: f64 = ONE - 0.001;
/// Number of steps that are measured in phases that need not train to the end.
const MEASURED: usize = 12;

/// Measures the fabric's countermeasures against slow workers
///
/// The command trains in a lab of eight workers, with real processes, agents and switches and a real model. The
/// workers' shards of the data are skewed by class. Workers are slowed down as by `lab slow`: none; one of eight,
/// without a countermeasure; one, detached; one, with its data shared by the others (shrink); four of eight, shrink;
/// and one that recovers. Step times are compared with the controller's predictions, and accuracies with the
/// undisturbed training. Each worker's accelerator is emulated: its time passes only while the worker's process runs.
/// The measurement takes about eight minutes
#[derive(Debug, Clone, Args)]
pub(crate) struct DegradedArgs {
    /// Topology file with eight workers
    #[arg(default_value = "topologies/three-tier-8.toml")]
    topology: PathBuf,

    /// Steps of each training
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(30..=10_000))]
    steps: u32,

    /// Factor by which workers are slowed down
    #[arg(long, value_name = "FACTOR", default_value_t = 4.0, value_parser = clap::value_parser!(f64))]
    factor: f64,

    /// Time of the emulated device for each step, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    step_ms: u64,

    /// Time of the emulated device for each sample, in milliseconds; a worker has 16 samples in a step
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    sample_ms: u64,

    /// Seed of the model's first weights and of the order of the data
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Name that distinguishes this lab from others on the machine
    #[arg(long, default_value = "bench-degraded")]
    name: String,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Returns the specifications of all phases, in order.
fn specs() -> [Spec; 6] {
    let spec = |name, slow, theta, goal| Spec { name, slow, theta, goal };
    [
        spec("undisturbed", &[], None, Goal::Trained),
        spec("one slow", &[3], None, Goal::Measured(MEASURED)),
        spec("one slow, detach", &[3], Some(ONE), Goal::Trained),
        spec("one slow, shrink", &[3], Some(BELOW_ONE), Goal::Trained),
        spec("four slow, shrink", &[1, 3, 5, 7], Some(BELOW_ONE), Goal::Measured(MEASURED)),
        spec("slow for a while", &[3], Some(BELOW_ONE), Goal::Returned(MEASURED)),
    ]
}

/// Measures, and prints the results.
///
/// # Errors
/// No rights to make a lab, a failure to make it, an endless phase, or a failed check.
pub(crate) fn run(args: &DegradedArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(report.text())?,
    }
    match report.failures() {
        failures if failures.is_empty() => Ok(()),
        failures => bail!("{}", failures.join("; ")),
    }
}

async fn measure(args: &DegradedArgs) -> Result<DegradedReport> {
    let factor = Slowdown::new(args.factor).map_err(|error| WrongUse(format!("--factor: {error}")))?;
    let topology = Topology::load(&args.topology)?;
    if topology.workers().len() != WORKERS {
        let workers = topology.workers().len();
        return Err(WrongUse(format!(
            "topology {} has {workers} workers: eight are needed",
            topology.name()
        ))
        .into());
    }
    let mut stop = Stop::new()?;
    let began = Instant::now();
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {prefix}: {msg}")?);
    bar.set_prefix("making the lab");
    let (lab, mut record) =
        up_fabric(&args.name, &args.topology, &FabricArgs::without_rates(), &mut stop).await?;
    let mut stage =
        Stage { lab: &lab, record: &mut record, factor, steps: args.steps, arguments: arguments(args) };
    let phases = tokio::select! {
        phases = phases(&mut stage, &bar) => phases,
        () = stop.requested() => Err(anyhow::anyhow!("stopped")),
    };
    bar.finish_and_clear();
    lab.down()?;
    let device = DeviceParameters::emulated(args.step_ms, args.sample_ms);
    Ok(DegradedReport::new(topology.name(), args.steps, args.factor, device, phases?, began.elapsed()))
}

async fn phases(stage: &mut Stage<'_>, bar: &ProgressBar) -> Result<Vec<Phase>> {
    let mut phases = Vec::new();
    for spec in specs() {
        bar.set_prefix(spec.name);
        phases.push(
            stage
                .run(&spec, |progress| {
                    bar.set_message(progress);
                    bar.tick();
                })
                .await?,
        );
    }
    Ok(phases)
}

fn arguments(args: &DegradedArgs) -> Vec<String> {
    let options = [
        ("--seed", args.seed),
        ("--step-microseconds", args.step_ms * 1000),
        ("--sample-microseconds", args.sample_ms * 1000),
    ];
    let options = options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
    std::iter::once("degraded-worker".to_owned()).chain(options).collect()
}
