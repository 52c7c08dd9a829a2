//! `tributary-bench schedule`: compares time points with other ways to send gradients.

mod report;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use tokio::time::timeout;
use tributary_bench::comparison::Machine;
use tributary_bench::statistics::{Ratio, Summary};
use tributary_cli::output;

use super::common::{rate, until_stopped};
use super::networks::{Network, Shape, Switches};
use super::ranks::Rank;
use report::{MethodTimes, Model, POINTS, ScheduleReport, Scheduled};
use tributary::Stop;
use tributary::lab::{job_schedule, worker_command};
use tributary::present::schedule::picture as schedule_picture;
use tributary_picture::PictureFile;

/// The script of each rank's process.
///
/// One trains a model whose gradients come in bursts, the other an example's model.
const BURSTS: &str = "bursts.py";
const EXAMPLE: &str = "example.py";
/// All files of the scripts.
const SCRIPTS: [(&str, &str); 3] = [
    (BURSTS, include_str!("../../../schedule/bursts.py")),
    (EXAMPLE, include_str!("../../../schedule/example.py")),
    ("turns.py", include_str!("../../../schedule/turns.py")),
];
/// Time limit of one round, which normally takes seconds.
///
/// Before the first round, all ways train for as long as the profile and the trial take.
const PATIENCE: Duration = Duration::from_secs(900);

/// Compares ways to send gradients: at time points, in a collective for each tensor, in one collective
/// for all tensors, and in the buckets of DistributedDataParallel. All workers train a model whose gradients come in
/// bursts. The ways take turns in the same processes, and the time of a backward pass is measured. Needs a Python
/// with PyTorch and the package `tributary`
///
/// Rank 0 stalls during the first profile, and the fabric must reject this profile. Every gradient is checked. The
/// exit status is 1 if a collective for each tensor does not take at least 1.3 times as long as time points, if time
/// points are slower than one collective for all, if ranks exchanged any other messages, or if the stall was not
/// found.
///
/// With --example, a PyTorch script provides the model and its data, and the time of a step is measured. All ways
/// must learn the same model, but no speed is required.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScheduleArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Rate of all links, such as 50mbit or "2.5 Gbit/s"
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "100mbit")]
    rate: u64,

    /// A script such as examples/cnn.py, which provides the model and its data, and trains with the loop.py
    /// in its folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bursts", "sizes", "compute", "stall"])]
    example: Option<PathBuf>,

    /// Draw the profile and the time points: an .svg or a .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PictureFile>,

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

    /// Computing time before each burst, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10)]
    compute: u64,

    /// Time for which rank 0 stalls in the first profile, in milliseconds; 0: not at all
    #[arg(long, value_name = "MS", default_value_t = 200)]
    stall: u64,

    /// Bucket sizes to compare with, in MiB
    #[arg(long, value_name = "MIB,MIB,…", value_delimiter = ',', default_value = "1,5,25")]
    buckets: Vec<u32>,

    /// Number of turns of each way
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Backward passes of a turn
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// The Python interpreter of the processes
    #[arg(long, value_name = "PROGRAM", env = "TRIBUTARY_BENCH_PYTHON", default_value = "python3")]
    python: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The medians of one round, by the name of the way to send gradients.
type Round = BTreeMap<String, f64>;

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, no PyTorch, a failed network, a wrong gradient, or a missed limit.
pub(crate) fn run(args: &ScheduleArgs) -> Result<()> {
    if let Some(plot) = &args.plot {
        plot.check()?;
    }
    let report = until_stopped(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(report.text())?,
    }
    let missed: Vec<_> =
        report.limits.iter().filter(|limit| !limit.holds).map(|limit| limit.what.as_str()).collect();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

async fn measure(args: &ScheduleArgs) -> Result<ScheduleReport> {
    let shape = Shape::load(args.topology.as_deref(), None)?;
    let mut stop = Stop::new()?;
    let name = format!("bench-{}-0", std::process::id());
    let network = shape.up(&name, args.rate, Switches::OURS, &mut stop).await?;
    let mut ranks = start(&network, args)?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let round = slowest(&lines::<Round>(&mut ranks).await?);
        let said: Vec<_> = round.iter().map(|(way, time)| format!("{way} {:.0} ms", time * 1e3)).collect();
        output::complain(format_args!("round {number} of {}: {}", args.rounds, said.join(", ")));
        rounds.push(round);
    }
    let scheduled = lines::<Scheduled>(&mut ranks).await?;
    let scheduled = *scheduled.first().context("there are no ranks")?;
    if let Some(file) = &args.plot {
        file.write(&schedule_picture(&job_schedule(&network.lab, &network.record)?))?;
    }
    let of = |way: &str| rounds.iter().filter_map(|round| round.get(way).copied()).collect::<Vec<_>>();
    let points = of(POINTS);
    let way = |name: &String| {
        let seconds = of(name);
        Ok(MethodTimes {
            name: name.clone(),
            seconds: Summary::of(&seconds)?,
            to_points: Ratio::of_pairs(&seconds, &points)?,
        })
    };
    let names = rounds.first().map(|round| round.keys().collect::<Vec<_>>()).unwrap_or_default();
    let ways = names.into_iter().map(way).collect::<Result<Vec<_>>>()?;
    let model = args.model();
    Ok(ScheduleReport {
        topology: shape.topology().name().to_owned(),
        workers: shape.topology().workers().len(),
        rate_bits_per_second: args.rate,
        limits: report::limits(&model, &ways, scheduled),
        model,
        ways,
        scheduled,
        machine: Machine::this(),
    })
}

/// Starts a process on each worker.
fn start(Network { lab, record }: &Network, args: &ScheduleArgs) -> Result<Vec<Rank>> {
    for (name, script) in SCRIPTS {
        let file = lab.folder().join(name);
        fs::write(&file, script).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let options = args.options()?;
    let mut ranks = Vec::new();
    for (rank, worker) in record.workers.iter().enumerate() {
        let mut command = worker_command(lab, record, (rank, worker), &args.python)?;
        command.arg(lab.folder().join(if args.example.is_some() { EXAMPLE } else { BURSTS })).args(&options);
        ranks.push(Rank::start(&format!("{} on {}", args.python.display(), worker.host), command)?);
    }
    Ok(ranks)
}

impl ScheduleArgs {
    /// Returns the command-line options of the processes.
    fn options(&self) -> Result<Vec<OsString>> {
        fn list<T: ToString>(numbers: &[T]) -> String {
            numbers.iter().map(T::to_string).collect::<Vec<_>>().join(",")
        }
        let seconds = |milliseconds: u64| (milliseconds as f64 / 1e3).to_string();
        let mut options = match &self.example {
            Some(example) => {
                let found = example.canonicalize();
                vec![found.with_context(|| format!("no example {}", example.display()))?.into()]
            }
            None => {
                let (bursts, sizes) = (self.bursts.to_string(), list(&self.sizes));
                let (compute, stall) = (seconds(self.compute), seconds(self.stall));
                let told = ["--bursts", &bursts, "--sizes", &sizes, "--compute", &compute, "--stall", &stall];
                told.map(OsString::from).into()
            }
        };
        let (buckets, rounds, steps) = (list(&self.buckets), self.rounds.to_string(), self.steps.to_string());
        options.extend(["--buckets", &buckets, "--rounds", &rounds, "--steps", &steps].map(OsString::from));
        Ok(options)
    }

    fn model(&self) -> Model {
        match &self.example {
            Some(example) => Model::Example { example: example.display().to_string() },
            None => Model::Bursts {
                bursts: self.bursts,
                sizes: self.sizes.clone(),
                compute_milliseconds: self.compute,
                stall_milliseconds: self.stall,
            },
        }
    }
}

/// Reads the next line of each rank.
async fn lines<T: for<'a> Deserialize<'a>>(ranks: &mut [Rank]) -> Result<Vec<T>> {
    let mut said = Vec::new();
    for rank in ranks {
        let line = timeout(PATIENCE, rank.line()).await;
        let line = line.with_context(|| format!("a round has not ended after {PATIENCE:?}"))??;
        said.push(
            serde_json::from_str(&line)
                .with_context(|| format!("a rank printed an unexpected line: {line:?}"))?,
        );
    }
    Ok(said)
}

/// Returns the time of the slowest rank for each way to send gradients.
fn slowest(ranks: &[Round]) -> Round {
    let mut slowest = Round::new();
    for (way, seconds) in ranks.iter().flatten() {
        let time = slowest.entry(way.clone()).or_default();
        *time = seconds.max(*time);
    }
    slowest
}
