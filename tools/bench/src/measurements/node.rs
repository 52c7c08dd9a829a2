//! `tributary-bench node`: several ranks on each host, beside gloo over the same ranks.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::Args;
use serde::Serialize;
use tokio::time::timeout;
use tributary_bench::comparison::{Elements, Machine};
use tributary_bench::statistics::{Ratio, Summary};
use tributary_cli::options::size;
use tributary_cli::output;
use tributary_topology::format_rate;

use super::allreduce::{Gloo, GlooWork, Processor, reduce_on_all, timing};
use super::common::{rate, topology_file, until_stopped};
use super::networks::{Network, Shape};
use tributary::Stop;

const TWO_WORKERS: &str = include_str!("../../../../topologies/two-workers.toml");
/// The most ranks on a host that can be measured.
const MOST_RANKS: i64 = 64;
/// Time limit of one turn, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);
/// The highest time relative to gloo's, with 8 ranks on each of two hosts and links of 1 Gbit/s.
///
/// The bound is 0.533: gloo's ring of 16 ranks sends 2 · 15/16 of the tensor over each link, and the fabric sends it
/// once.
const LIMIT_AT_ONE_GIGABIT: f64 = 0.60;
/// The highest time relative to gloo's, with 8 ranks on each of two hosts and links without rates.
const LIMIT_WITHOUT_RATES: f64 = 0.5;
const LIMITED_RANKS: u32 = 8;
const ONE_GIGABIT: u64 = 1_000_000_000;

/// Times all-reduces of f32 with several ranks on each of two hosts: by this project's fabric, and by
/// PyTorch's gloo over the same ranks
///
/// Both take turns in one lab: the embedded switch adds the fabric's slices and forwards gloo's packets. Every sum is
/// checked. The processor time is that of the whole machine during an all-reduce, so it includes the switch, and the
/// server of the fabric. With 8 ranks on a host, the project's own limits are checked; the exit status is 1 if a limit
/// is missed.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodeArgs {
    /// Topology file [default: the built-in topologies/two-workers.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Numbers of ranks on each host
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: Vec<u32>,

    /// Rates of all links, such as 1gbit; "none" for links that are as fast as the machine allows
    #[arg(long, value_name = "RATE", value_delimiter = ',', default_value = "none,1gbit", value_parser = link_rate)]
    rate: Vec<LinkRate>,

    /// Size of each rank's tensor
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size)]
    size: ByteSize,

    /// Number of turns of both
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Python interpreter with PyTorch
    #[arg(long, value_name = "PROGRAM", env = "TRIBUTARY_BENCH_PYTHON", default_value = "python3")]
    python: PathBuf,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The rate of all links in bits a second; `None` if they are as fast as the machine allows.
type LinkRate = Option<u64>;

fn link_rate(text: &str) -> Result<LinkRate, String> {
    if text == "none" { Ok(None) } else { rate(text).map(Some) }
}

/// The results; times are in seconds.
#[derive(Debug, Serialize)]
struct NodeReport {
    topology: String,
    hosts: usize,
    bytes: u64,
    rows: Vec<Row>,
    machine: Machine,
}

/// The results with one number of ranks and one rate.
#[derive(Debug, Serialize)]
struct Row {
    ranks_per_host: u32,
    rate_bits_per_second: LinkRate,
    fabric: Contestant,
    gloo: Contestant,
    /// The fabric's time relative to gloo's, turn by turn.
    ratio: Ratio,
    limit: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Contestant {
    /// Time of the slowest rank.
    seconds: Summary,
    /// Processor time of the whole machine for each GiB and rank.
    ///
    /// Absent if the all-reduces were too short to measure it.
    processor_seconds_per_gib_and_rank: Option<f64>,
}

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, no PyTorch, a failed network, a wrong sum, or a missed limit.
pub(crate) fn run(args: &NodeArgs) -> Result<()> {
    let report = until_stopped(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(text(&report)?)?,
    }
    let missed = |row: &&Row| row.limit.is_some_and(|limit| row.ratio.of_medians > limit);
    let missed: Vec<_> = report.rows.iter().filter(missed).map(name_of).collect();
    if !missed.is_empty() {
        bail!("the limit was missed with {}", missed.join(" and with "));
    }
    Ok(())
}

async fn measure(args: &NodeArgs) -> Result<NodeReport> {
    let folder = tempfile::tempdir()?;
    let topology = topology_file(args.topology.as_deref(), TWO_WORKERS, &folder)?;
    let shape = Shape::load(Some(&topology), None)?;
    let mut rows = Vec::new();
    for &rate in &args.rate {
        for &ranks in &args.ranks {
            rows.push(row(args, &shape, (ranks, rate)).await?);
        }
    }
    Ok(NodeReport {
        topology: shape.topology().name().to_owned(),
        hosts: shape.workers().len(),
        bytes: args.size.as_u64(),
        rows,
        machine: Machine::this(),
    })
}

async fn row(args: &NodeArgs, shape: &Shape, (ranks, rate): (u32, LinkRate)) -> Result<Row> {
    let mut stop = Stop::new()?;
    let processor = Processor::watch();
    let Network { lab, record } =
        shape.up_unpinned(&format!("bench-{}", std::process::id()), rate, &mut stop).await?;
    let hosts: Vec<String> =
        shape.workers().into_iter().flat_map(|host| vec![host; ranks as usize]).collect();
    let bytes = args.size.as_u64();
    let work = GlooWork {
        python: &args.python,
        elements: bytes / Elements::F32.bytes(),
        dtype: Elements::F32,
        iterations: 1,
    };
    let mut gloo = Gloo::start(&lab, &hosts, work).await?;
    let (mut ours, mut theirs) = (Turns::default(), Turns::default());
    for round in 1..=args.rounds {
        let lines = reduce_on_all(&lab, &record, (bytes, ranks), 1, &[]);
        let lines = within(lines, "the fabric").await?;
        ours.add(timing::of_all(lines.iter().map(String::as_str), 1)?, &processor);
        theirs.add(within(gloo.turn(), "gloo").await?, &processor);
        output::complain(format_args!(
            "{}, round {round} of {}: the fabric {:.3} s, gloo {:.3} s",
            setting(ranks, rate),
            args.rounds,
            ours.last(),
            theirs.last(),
        ));
    }
    let limit = match rate {
        None => Some(LIMIT_WITHOUT_RATES),
        Some(ONE_GIGABIT) => Some(LIMIT_AT_ONE_GIGABIT),
        Some(_) => None,
    };
    let gib_and_ranks = bytes as f64 / f64::from(1 << 30) * hosts.len() as f64;
    Ok(Row {
        ranks_per_host: ranks,
        rate_bits_per_second: rate,
        ratio: Ratio::of_pairs(&ours.seconds, &theirs.seconds)?,
        fabric: ours.summary(gib_and_ranks)?,
        gloo: theirs.summary(gib_and_ranks)?,
        limit: limit.filter(|_| ranks == LIMITED_RANKS),
    })
}

async fn within<T>(turn: impl Future<Output = Result<T>>, whose: &str) -> Result<T> {
    timeout(PATIENCE, turn)
        .await
        .with_context(|| format!("a turn of {whose} has not ended after {PATIENCE:?}"))?
}

/// The turns of one contender.
#[derive(Debug, Default)]
struct Turns {
    seconds: Vec<f64>,
    /// Processor time of the whole machine in each turn, in seconds.
    processor: Vec<f64>,
}

impl Turns {
    fn add(&mut self, timings: Vec<timing::Timing>, processor: &Processor) {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
        for timing in timings {
            self.seconds.push(timing.slowest);
            let busy = processor.busy(timing.began, timing.ended);
            self.processor.extend(busy.map(|busy| busy * cores * (timing.ended - timing.began)));
        }
    }

    fn last(&self) -> f64 {
        self.seconds.last().copied().unwrap_or_default()
    }

    fn summary(&self, gib_and_ranks: f64) -> Result<Contestant> {
        let processor = Summary::of(&self.processor).ok().map(|seconds| seconds.median / gib_and_ranks);
        Ok(Contestant { seconds: Summary::of(&self.seconds)?, processor_seconds_per_gib_and_rank: processor })
    }
}

fn setting(ranks: u32, rate: LinkRate) -> String {
    let links = rate
        .map_or_else(|| "links without rates".to_owned(), |rate| format!("links of {}", format_rate(rate)));
    format!("{ranks} ranks a host, {links}")
}

fn name_of(row: &Row) -> String {
    setting(row.ranks_per_host, row.rate_bits_per_second)
}

fn text(report: &NodeReport) -> Result<String> {
    let mut table = output::table(&[
        "links",
        "ranks a host",
        "fabric",
        "gloo",
        "ratio",
        "limit",
        "processor: fabric",
        "gloo",
    ]);
    let seconds = |of: &Contestant| {
        format!("{:.3} s ({:.3} to {:.3})", of.seconds.median, of.seconds.min, of.seconds.max)
    };
    let processor = |of: &Contestant| {
        of.processor_seconds_per_gib_and_rank
            .map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s"))
    };
    for row in &report.rows {
        table.add_row([
            row.rate_bits_per_second.map_or_else(|| "no rates".to_owned(), format_rate),
            row.ranks_per_host.to_string(),
            seconds(&row.fabric),
            seconds(&row.gloo),
            format!("{:.2} ({:.2} to {:.2})", row.ratio.of_medians, row.ratio.min, row.ratio.max),
            row.limit.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.2}")),
            processor(&row.fabric),
            processor(&row.gloo),
        ]);
    }
    let mut text = String::new();
    writeln!(
        text,
        "all-reduce of {} of f32 a rank over {} hosts, topology {}; every sum is right",
        ByteSize(report.bytes),
        report.hosts,
        report.topology
    )?;
    writeln!(text, "processor: time of the whole machine for each GiB and rank")?;
    write!(text, "{table}")?;
    Ok(text)
}
