//! `tributary bench schedule`: gradients that leave at time points beside other ways to send them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tributary_bench::comparison::Machine;
use tributary_bench::statistics::{Ratio, Summary};
use tributary_cli::output;
use tributary_topology::format_rate;

use super::networks::{Network, Shape, Switches};
use super::ranks::Rank;
use super::{machine, rate, until_stopped};
use crate::daemon::Stop;
use crate::lab::worker_command;

/// The process of each rank.
const SCRIPT: &str = include_str!("../../../bench/schedule/bursts.py");
/// What time points are compared with: a collective for each tensor, and one for all.
const POINTS: &str = "points";
const TENSOR: &str = "tensor";
const ONE: &str = "one";
/// So many times as long a collective for each tensor has to take at least ...
const FASTER_THAN_TENSOR: f64 = 1.3;
/// ... and one for all: noise apart, time points are never slower.
const FASTER_THAN_ONE: f64 = 0.98;
/// For one round, which takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Trains a model whose gradients come in bursts on all workers, and compares what a backward pass takes with time points,
/// with a collective for each tensor, with one for all of them, and with the buckets of DistributedDataParallel, in turns in
/// the same processes. Needs root, and a Python with PyTorch and the package `tributary`
///
/// A stall spoils the first profile, which has to be thrown out. Every gradient is checked. The exit status is 1 if time
/// points are not faster than a collective for each tensor (1.3 times), slower than one for all of them, if ranks had to talk
/// to one another besides, or if the stall was not found.
#[derive(Debug, Clone, Args)]
pub(in crate::bench) struct ScheduleArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Rate of all links, such as 50mbit or "2.5 Gbit/s"
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "100mbit")]
    rate: u64,

    /// Bursts of a backward pass
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..))]
    bursts: u32,

    /// Bytes of each tensor of a burst
    #[arg(
        long,
        value_name = "BYTES,BYTES,…",
        value_delimiter = ',',
        default_value = "65536,1024,1024,1024,1024,1024,1024,1024,1024,1024",
        value_parser = clap::value_parser!(u64).range(4..)
    )]
    sizes: Vec<u64>,

    /// Computing before each burst, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10)]
    compute: u64,

    /// What rank 0 is held up by in the first profile, milliseconds; 0: nothing
    #[arg(long, value_name = "MS", default_value_t = 200)]
    stall: u64,

    /// Sizes of buckets to compare with, MiB
    #[arg(long, value_name = "MIB,MIB,…", value_delimiter = ',', default_value = "1,5,25")]
    buckets: Vec<u32>,

    /// How often each way has its turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Backward passes of a turn
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// The Python of the processes
    #[arg(long, value_name = "PROGRAM", env = "TRIBUTARY_BENCH_PYTHON", default_value = "python3")]
    python: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What came of it; times in seconds.
#[derive(Debug, Serialize)]
struct Report {
    topology: String,
    workers: usize,
    rate_bits_per_second: u64,
    bursts: u32,
    sizes: Vec<u64>,
    compute_milliseconds: u64,
    ways: Vec<Way>,
    #[serde(flatten)]
    scheduled: Scheduled,
    limits: Vec<Limit>,
    machine: Machine,
}

/// One way to send gradients.
#[derive(Debug, Serialize)]
struct Way {
    name: String,
    /// A backward pass, in the slowest rank's median of each round.
    seconds: Summary,
    /// How many times as long as time points, round by round.
    to_points: Ratio,
}

/// What has to hold.
#[derive(Debug, Serialize)]
struct Limit {
    what: String,
    holds: bool,
}

/// What a rank says in the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Scheduled {
    /// Profiles until there was a schedule.
    profiles: u32,
    /// Sets of the schedule.
    sets: u32,
    /// Of this rank's last sets.
    late_sets: u32,
    /// Collectives that did not go over the fabric while time points had their turns.
    other_messages: u32,
}

/// Medians of a round, by the way's name.
type Round = BTreeMap<String, f64>;

/// Measures and reports.
///
/// # Errors
/// No root, no PyTorch, a network that fails, a gradient that is wrong, a limit that is missed.
pub(in crate::bench) fn run(args: &ScheduleArgs) -> Result<()> {
    let report = until_stopped(measure(args))?;
    match args.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => println!("{}", text(&report)),
    }
    let missed: Vec<_> =
        report.limits.iter().filter(|limit| !limit.holds).map(|limit| limit.what.as_str()).collect();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

async fn measure(args: &ScheduleArgs) -> Result<Report> {
    let shape = Shape::load(args.topology.as_deref())?;
    let mut stop = Stop::new()?;
    let name = format!("bench-{}-0", std::process::id());
    let network = shape.up(&name, args.rate, Switches::Ours { loss: 0.0 }, &mut stop).await?;
    let mut ranks = start(&network, args)?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let round = slowest(&lines::<Round>(&mut ranks).await?);
        let said: Vec<_> = round.iter().map(|(way, time)| format!("{way} {:.0} ms", time * 1e3)).collect();
        eprintln!("round {number} of {}: {}", args.rounds, said.join(", "));
        rounds.push(round);
    }
    let scheduled = lines::<Scheduled>(&mut ranks).await?;
    let scheduled = *scheduled.first().context("there are no ranks")?;
    let of = |way: &str| rounds.iter().filter_map(|round| round.get(way).copied()).collect::<Vec<_>>();
    let points = of(POINTS);
    let way = |name: &String| {
        let seconds = of(name);
        Ok(Way {
            name: name.clone(),
            seconds: Summary::of(&seconds)?,
            to_points: Ratio::of_pairs(&seconds, &points)?,
        })
    };
    let names = rounds.first().map(|round| round.keys().collect::<Vec<_>>()).unwrap_or_default();
    let ways = names.into_iter().map(way).collect::<Result<Vec<_>>>()?;
    Ok(Report {
        topology: shape.topology().name().to_owned(),
        workers: shape.topology().workers().len(),
        rate_bits_per_second: args.rate,
        bursts: args.bursts,
        sizes: args.sizes.clone(),
        compute_milliseconds: args.compute,
        limits: limits(args, &ways, scheduled),
        ways,
        scheduled,
        machine: machine::describe(),
    })
}

/// A process on each worker.
fn start(Network { lab, record }: &Network, args: &ScheduleArgs) -> Result<Vec<Rank>> {
    let script = lab.folder().join("bursts.py");
    fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    let seconds = |milliseconds: u64| (milliseconds as f64 / 1e3).to_string();
    let list = |numbers: Vec<String>| numbers.join(",");
    let mut ranks = Vec::new();
    for (rank, worker) in record.workers.iter().enumerate() {
        let mut command = worker_command(lab, record, (rank, worker), &args.python)?;
        command.arg(&script).args(["--bursts", &args.bursts.to_string()]);
        command.args(["--sizes", &list(args.sizes.iter().map(u64::to_string).collect())]);
        command.args(["--buckets", &list(args.buckets.iter().map(u32::to_string).collect())]);
        command.args(["--compute", &seconds(args.compute), "--stall", &seconds(args.stall)]);
        command.args(["--rounds", &args.rounds.to_string(), "--steps", &args.steps.to_string()]);
        ranks.push(Rank::start(&format!("{} on {}", args.python.display(), worker.host), command)?);
    }
    Ok(ranks)
}

/// The next line of each rank.
async fn lines<T: for<'a> Deserialize<'a>>(ranks: &mut [Rank]) -> Result<Vec<T>> {
    let mut said = Vec::new();
    for rank in ranks {
        let line = timeout(PATIENCE, rank.line()).await;
        let line = line.with_context(|| format!("a round is not done after {PATIENCE:?}"))??;
        said.push(serde_json::from_str(&line).with_context(|| format!("a rank said {line:?}"))?);
    }
    Ok(said)
}

/// Each way's time of the rank that took longest.
fn slowest(ranks: &[Round]) -> Round {
    let mut slowest = Round::new();
    for (way, seconds) in ranks.iter().flatten() {
        let time = slowest.entry(way.clone()).or_default();
        *time = seconds.max(*time);
    }
    slowest
}

fn limits(args: &ScheduleArgs, ways: &[Way], scheduled: Scheduled) -> Vec<Limit> {
    let ratio =
        |name: &str| ways.iter().find(|way| way.name == name).map_or(0.0, |way| way.to_points.of_medians);
    let limit = |what: String, holds: bool| Limit { what, holds };
    let (tensor, one) = (ratio(TENSOR), ratio(ONE));
    let profiles = if args.stall > 0 { 2 } else { 1 };
    vec![
        limit(
            format!(
                "a collective for each tensor takes {tensor:.2} times as long, at least {FASTER_THAN_TENSOR}"
            ),
            tensor >= FASTER_THAN_TENSOR,
        ),
        limit(
            format!("one collective for all takes {one:.2} times as long, at least {FASTER_THAN_ONE}"),
            one >= FASTER_THAN_ONE,
        ),
        limit(
            format!("{} other messages between ranks after the profile", scheduled.other_messages),
            scheduled.other_messages == 0,
        ),
        limit(
            format!("{} profiles until there was a schedule, at least {profiles}", scheduled.profiles),
            scheduled.profiles >= profiles,
        ),
        limit(format!("{} sets for {} bursts", scheduled.sets, args.bursts), scheduled.sets == args.bursts),
    ]
}

fn text(report: &Report) -> String {
    let mut table = output::table(&["gradients leave", "backward pass", "from", "to", "of time points'"]);
    for way in &report.ways {
        let name = match way.name.as_str() {
            POINTS => "at time points".to_owned(),
            TENSOR => "each for itself".to_owned(),
            ONE => "all together".to_owned(),
            size => format!("in buckets of {size}"),
        };
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        let Summary { median, min, max, .. } = way.seconds;
        let ratio = format!("{:.2} x", way.to_points.of_medians);
        table.add_row([name, milliseconds(median), milliseconds(min), milliseconds(max), ratio]);
    }
    let limits = report.limits.iter().map(|limit| {
        let mark = if limit.holds { "holds" } else { "MISSED" };
        format!("{mark}: {}", limit.what)
    });
    format!(
        "{} bursts of {} tensors, {} bytes each burst, {} ms of computing before each; {} workers, topology {}, links of {}; \
         every gradient is right\n{table}\n{}",
        report.bursts,
        report.sizes.len(),
        report.sizes.iter().sum::<u64>(),
        report.compute_milliseconds,
        report.workers,
        report.topology,
        format_rate(report.rate_bits_per_second),
        limits.collect::<Vec<_>>().join("\n"),
    )
}
