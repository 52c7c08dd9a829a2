//! `tributary-bench endurance`: checks that no resource use grows while a fabric works for an hour.

mod growth;
mod usage;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytesize::ByteSize;
use clap::Args;
use serde::Serialize;
use tokio::time::timeout;
use tributary_bench::comparison::Machine;
use tributary_bench::statistics::Summary;
use tributary_cli::options::size;
use tributary_cli::output;
use tributary_controller::JOB_HISTORY;

use super::allreduce::reduce_on_all;
use super::common::{rate, until_stopped};
use super::networks::{Network, Shape, Switches};
use growth::{Growth, UsageSample};
use tributary::Stop;
use tributary::lab;
use usage::{Resource, Usage};

/// Time limit of one turn, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);
/// Number of jobs that run before the measurement, to fill the controller's history of ended jobs.
///
/// The controller keeps some of the ended jobs, and does not reuse memory at once that it frees.
const JOBS_BEFORE: usize = 3 * JOB_HISTORY;
/// Size of the tensor that each of these jobs reduces once.
const BYTES_BEFORE: u64 = 64 << 10;
/// Time between two lines of progress.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// Reduces tensors on all workers of a lab without a pause. Each turn has a new job and new processes.
/// After each turn, the command reads the memory, descriptors and threads of each daemon and the slots in use on each
/// switch.
///
/// Every sum is checked. The exit status is 1 if a figure grows: if a line fitted to its values rises by more than
/// their scatter explains. Values count after some hundred small jobs and the first tenth of the time, in which
/// caches fill.
#[derive(Debug, Clone, Args)]
pub(crate) struct EnduranceArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Rate of all links, such as 50mbit or "2.5 Gbit/s"; with a higher rate, the processor is the limit
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "10gbit")]
    rate: u64,

    /// Duration of the measurement, in minutes
    #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = minutes)]
    minutes: f64,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = size)]
    size: ByteSize,

    /// Number of reductions by each turn's processes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| minutes.is_finite() && *minutes > 0.0);
    minutes.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// The results.
#[derive(Debug, Serialize)]
struct EnduranceReport {
    topology: String,
    workers: usize,
    rate_bits_per_second: u64,
    minutes: f64,
    turns: usize,
    /// Bytes that all members together have reduced.
    bytes: u64,
    /// Bytes of the tensor per second in each turn, including the start of its processes.
    bytes_per_second: Summary,
    parts: Vec<FigureGrowth>,
    machine: Machine,
}

/// The change of one figure of one daemon or switch.
#[derive(Debug, Serialize)]
struct FigureGrowth {
    name: String,
    kind: Resource,
    #[serde(flatten)]
    growth: Growth,
}

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, a network failure, a wrong sum, or a growing figure.
pub(crate) fn run(args: &EnduranceArgs) -> Result<()> {
    let report = until_stopped(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(report.text()?)?,
    }
    let growing = report.parts.iter().filter(|part| part.growth.grows);
    let growing: Vec<_> = growing.map(|part| format!("{} of {}", part.kind.name(), part.name)).collect();
    ensure!(growing.is_empty(), "these grow: {}", growing.join(", "));
    Ok(())
}

async fn measure(args: &EnduranceArgs) -> Result<EnduranceReport> {
    let shape = Shape::load(args.topology.as_deref(), None)?;
    let mut stop = Stop::new()?;
    let name = format!("bench-{}-0", std::process::id());
    let mut network = shape.up(&name, args.rate, Switches::OURS, &mut stop).await?;
    fill(&mut network).await?;
    let bytes = args.size.as_u64() * u64::from(args.iterations);
    let (begin, length) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let (mut usages, mut rates, mut said) = (Vec::new(), Vec::new(), Instant::now());
    while begin.elapsed() < length {
        let turn = Instant::now();
        reduce(&network, args.size.as_u64(), args.iterations).await?;
        rates.push(bytes as f64 / turn.elapsed().as_secs_f64());
        usages.push((begin.elapsed(), Usage::of_all(&network.lab, &network.record)?));
        if said.elapsed() >= SAY_EVERY {
            let percent = (100.0 * begin.elapsed().as_secs_f64() / length.as_secs_f64()).min(100.0);
            output::complain(format_args!("{percent:.0} %: {} turns, every sum is right", usages.len()));
            said = Instant::now();
        }
        lab::restart_job(&network.lab, &mut network.record, None)?;
    }
    Ok(EnduranceReport {
        topology: shape.topology().name().to_owned(),
        workers: shape.topology().workers().len(),
        rate_bits_per_second: args.rate,
        minutes: args.minutes,
        turns: usages.len(),
        bytes: bytes * usages.len() as u64,
        bytes_per_second: Summary::of(&rates)?,
        parts: growths(&usages, length / 10)?,
        machine: Machine::this(),
    })
}

/// Runs jobs to their end. There are more of them than the controller keeps in its history.
async fn fill(network: &mut Network) -> Result<()> {
    let mut said = Instant::now();
    for job in 1..=JOBS_BEFORE {
        reduce(network, BYTES_BEFORE, 1).await?;
        if said.elapsed() >= SAY_EVERY {
            output::complain(format_args!("{job} of {JOBS_BEFORE} jobs before the measurement"));
            said = Instant::now();
        }
        lab::restart_job(&network.lab, &mut network.record, None)?;
    }
    Ok(())
}

/// Runs one turn.
async fn reduce(network: &Network, bytes: u64, iterations: u32) -> Result<()> {
    let reducing = reduce_on_all(&network.lab, &network.record, (bytes, 1), iterations, &[]);
    let done = timeout(PATIENCE, reducing).await;
    done.with_context(|| format!("a turn has not ended after {PATIENCE:?}"))??;
    Ok(())
}

/// Returns the change of each figure since the caches were full.
fn growths(usages: &[(Duration, Vec<Usage>)], since: Duration) -> Result<Vec<FigureGrowth>> {
    let usages: Vec<_> = usages.iter().filter(|(time, _)| *time >= since).collect();
    let (_, first) = usages.first().context("no turn ended in time: give it more minutes")?;
    let mut growths = Vec::new();
    for (index, Usage { name, kind, .. }) in first.iter().enumerate() {
        let sample = |(time, all): &&(Duration, Vec<Usage>)| {
            Some(UsageSample { hours: time.as_secs_f64() / 3600.0, figure: all.get(index)?.figure })
        };
        let samples: Vec<_> = usages.iter().filter_map(sample).collect();
        let growth = Growth::of(&samples, kind.granule());
        let growth = growth.context("too few turns for a line: give it more minutes")?;
        growths.push(FigureGrowth { name: name.clone(), kind: *kind, growth });
    }
    Ok(growths)
}

impl EnduranceReport {
    fn text(&self) -> Result<String> {
        let mut table = output::table(&["daemon or switch", "", "median", "an hour", "grows"]);
        for FigureGrowth { name, kind, growth } in &self.parts {
            table.add_row([
                name.clone(),
                kind.name().to_owned(),
                kind.show(growth.median),
                format!(
                    "{}{} ± {}",
                    sign(growth.per_hour),
                    kind.show(growth.per_hour.abs()),
                    kind.show(growth.error)
                ),
                if growth.grows { "yes" } else { "no" }.to_owned(),
            ]);
        }
        let mut text = table.to_string();
        let rate = &self.bytes_per_second;
        write!(
            text,
            "\n{} turns in {} min, topology {}, {} workers, each {} of f32: every sum is right\n{:.1} MB/s of the tensor ({:.1} to {:.1})",
            self.turns,
            self.minutes,
            self.topology,
            self.workers,
            ByteSize(self.bytes),
            rate.median / 1e6,
            rate.min / 1e6,
            rate.max / 1e6,
        )?;
        Ok(text)
    }
}

fn sign(number: f64) -> &'static str {
    if number < 0.0 { "−" } else { "+" }
}
