//! `tributary-bench overlap`: one tensor in many parts, and the client's cost of a call.
//!
//! The time of the parts is compared with the time of the whole tensor.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tributary_bench::comparison::Machine;
use tributary_bench::statistics::{Ratio, Summary};
use tributary_cli::options::size;
use tributary_cli::output;
use tributary_topology::format_rate;

use super::{own_contenders, timing};
use crate::measurements::common::{rate, until_stopped};
use crate::measurements::networks::{Network, Shape, Switches};
use tributary::Stop;

/// The most time that all parts together may take, relative to the whole tensor.
const LIMIT: f64 = 1.1;
/// Size of the small tensor for measuring the client's own time, and the number of its all-reduces.
const SMALL_BYTES: u64 = 4 << 10;
const SMALL_ITERATIONS: u32 = 200;
/// Time limit of one turn, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Times an all-reduce of many tensors, a few of them in flight, and an all-reduce of one tensor of the
/// same total size, in turns on the same network. Also measures the time of the client alone for a small tensor,
/// without its agent's time
///
/// Every sum is checked. The exit status is 1 if the many tensors take more than 1.1 times as long as the one tensor.
#[derive(Debug, Clone, Args)]
pub(crate) struct OverlapArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Rate of all links, such as 50mbit or "2.5 Gbit/s"
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1gbit")]
    rate: u64,

    /// Size of all tensors together
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size)]
    size: ByteSize,

    /// Number of tensors
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tensors: u32,

    /// Number of tensors that are in flight at the same time
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,

    /// Number of turns of both
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The results; times are in seconds.
#[derive(Debug, Serialize)]
struct OverlapReport {
    topology: String,
    workers: usize,
    rate_bits_per_second: u64,
    bytes: u64,
    tensors: u32,
    in_flight: u32,
    /// Time of the whole tensor on its slowest rank.
    whole: Summary,
    /// Time of all parts together on the slowest rank.
    parts: Summary,
    /// Time of all parts relative to the whole tensor, turn by turn.
    ratio: Ratio,
    limit: f64,
    small: Small,
    machine: Machine,
}

/// The results of small all-reduces, over all ranks.
#[derive(Debug, Serialize)]
struct Small {
    bytes: u64,
    iterations: u32,
    /// Each rank's median.
    seconds: Summary,
    /// Each rank's median of a call's time minus the time spent in its agent.
    client_overhead_seconds: Summary,
}

/// Report of a rank.
#[derive(Debug, Deserialize)]
struct RankReport {
    seconds: Median,
    client_overhead_seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Median {
    median: f64,
}

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, a failed network, a wrong sum, or a missed limit.
pub(crate) fn run(args: &OverlapArgs) -> Result<()> {
    let report = until_stopped(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(text(&report))?,
    }
    if report.ratio.of_medians > LIMIT {
        bail!("the limit was missed: {:.3} times the single tensor's time", report.ratio.of_medians);
    }
    Ok(())
}

async fn measure(args: &OverlapArgs) -> Result<OverlapReport> {
    let shape = Shape::load(args.topology.as_deref(), None)?;
    let mut stop = Stop::new()?;
    let name = format!("bench-{}-0", std::process::id());
    let network = shape.up(&name, args.rate, Switches::OURS, &mut stop).await?;
    let (tensors, in_flight) = (args.tensors.to_string(), args.in_flight.to_string());
    let split = ["--tensors", &tensors, "--in-flight", &in_flight];
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        for (what, options, times) in [("whole", &[][..], &mut whole), ("parts", &split[..], &mut parts)] {
            let seconds = turn(&network, args.size.as_u64(), options).await?;
            output::complain(format_args!(
                "round {round} of {}: {what}: {:.0} ms",
                args.rounds,
                seconds * 1e3
            ));
            times.push(seconds);
        }
    }
    Ok(OverlapReport {
        topology: shape.topology().name().to_owned(),
        workers: shape.topology().workers().len(),
        rate_bits_per_second: args.rate,
        bytes: args.size.as_u64(),
        tensors: args.tensors,
        in_flight: args.in_flight,
        whole: Summary::of(&whole)?,
        parts: Summary::of(&parts)?,
        ratio: Ratio::of_pairs(&parts, &whole)?,
        limit: LIMIT,
        small: small(&network).await?,
        machine: Machine::this(),
    })
}

/// Returns the time that one all-reduce took on its slowest rank.
async fn turn(Network { lab, record }: &Network, bytes: u64, options: &[&str]) -> Result<f64> {
    let lines = timeout(PATIENCE, own_contenders::run(lab, record, (bytes, 1), 1, options)).await;
    let lines = lines.with_context(|| format!("a turn has not ended after {PATIENCE:?}"))??;
    let timings = timing::of_all(lines.iter().map(String::as_str), 1)?;
    Ok(timings.first().context("no rank printed a result")?.slowest)
}

async fn small(Network { lab, record }: &Network) -> Result<Small> {
    let lines =
        timeout(PATIENCE, own_contenders::run(lab, record, (SMALL_BYTES, 1), SMALL_ITERATIONS, &[])).await;
    let lines =
        lines.with_context(|| format!("the small all-reduces have not ended after {PATIENCE:?}"))??;
    let said = lines.iter().map(|line| {
        serde_json::from_str(line).with_context(|| format!("unexpected output of a rank: {line:?}"))
    });
    let said = said.collect::<Result<Vec<RankReport>>>()?;
    let summary = |of: fn(&RankReport) -> f64| Summary::of(&said.iter().map(of).collect::<Vec<_>>());
    Ok(Small {
        bytes: SMALL_BYTES,
        iterations: SMALL_ITERATIONS,
        seconds: summary(|said| said.seconds.median)?,
        client_overhead_seconds: summary(|said| said.client_overhead_seconds)?,
    })
}

fn text(report: &OverlapReport) -> String {
    let OverlapReport { whole, parts, ratio, small, .. } = report;
    let span = |times: &Summary| {
        format!("{:.0} ms ({:.0} to {:.0})", times.median * 1e3, times.min * 1e3, times.max * 1e3)
    };
    format!(
        "all-reduce of {} of f32 over {} workers, topology {}, links of {}; every sum is right\n\
         one tensor       {}\n\
         {} tensors, {} in flight  {}\n\
         ratio            {:.3} ({:.3} to {:.3}), at most {}\n\
         {}: {:.0} µs, of which the client takes {:.0} µs ({:.0} to {:.0}), without its agent",
        ByteSize(report.bytes),
        report.workers,
        report.topology,
        format_rate(report.rate_bits_per_second),
        span(whole),
        report.tensors,
        report.in_flight,
        span(parts),
        ratio.of_medians,
        ratio.min,
        ratio.max,
        report.limit,
        ByteSize(small.bytes),
        small.seconds.median * 1e6,
        small.client_overhead_seconds.median * 1e6,
        small.client_overhead_seconds.min * 1e6,
        small.client_overhead_seconds.max * 1e6,
    )
}
