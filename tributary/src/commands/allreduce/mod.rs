//! `tributary allreduce`: measures all-reduces through the agent of this host.

mod barrier;
mod contribution;
mod plain;
mod quantised;
mod report;

use std::time::Duration;

use anyhow::{Result, ensure};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_client::{Job, JoinOptions};

use barrier::Barrier;
use contribution::Number;
use plain::Plain;
use quantised::Quantised;
use report::{Quantisation, Report, Timing};

use crate::daemons::service::WrongUse;
use crate::options::part::PartArgs;
use tributary_cli::options::size;

/// Reduces a tensor over all members of a job, and says how long it took
///
/// It goes through the agent of this host. To be run on every worker of the job with the same options.
#[derive(Debug, Args)]
pub(crate) struct AllReduceArgs {
    #[command(flatten)]
    part: PartArgs,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = size)]
    size: ByteSize,

    /// Reduce it as this many tensors of about the same size, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "codec",
          value_parser = clap::value_parser!(u32).range(1..))]
    tensors: u32,

    /// How many of the tensors are in flight at the same time
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,

    /// How its elements are stored
    #[arg(long, value_enum, default_value_t = DataType::F32)]
    dtype: DataType,

    /// Quantise f32: send levels that the fabric aggregates, instead of the values (docs/quantisation.md)
    #[arg(long, value_enum)]
    codec: Option<Codec>,

    /// Add what the levels leave out of one iteration to the next
    #[arg(long, requires = "codec")]
    feedback: bool,

    /// How often to reduce
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Size of a tensor that is reduced once before anything is measured: the first all-reduce of a process pays for
    /// memory that nobody has touched yet
    #[arg(long, value_name = "BYTES", default_value = "0")]
    warm_up: ByteSize,

    /// Compare every sum with the expected one; with --codec, also measure its error relative to the plain sum
    #[arg(long)]
    check: bool,

    /// Let all ranks begin and end each iteration together, so that no rank's time includes waiting for a rank that is
    /// not there yet
    #[arg(long)]
    barrier: bool,

    /// How long each all-reduce may take until it fails [default: as long as the job lives]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// How elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataType {
    F32,
    I32,
    F16,
    Bf16,
}

/// Codecs whose codes a fabric can aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Codec {
    /// Four levels that all ranks agree on in each iteration
    #[value(name = "casq-4-shared")]
    Casq4Shared,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Self::Casq4Shared => "casq-4-shared",
        }
    }
}

impl DataType {
    /// The codec's name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Measures, and prints the report.
///
/// # Errors
/// No agent, a job that cannot be joined or fails, a sum that is wrong.
pub(crate) fn run(args: &AllReduceArgs) -> Result<()> {
    if args.codec.is_some() && args.dtype != DataType::F32 {
        let problem =
            format!("--codec quantises f32, and --dtype is {}: leave one of them out", args.dtype.name());
        return Err(WrongUse(problem).into());
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        match (args.codec, args.dtype) {
            (Some(codec), _) => measure::<f32, Quantised>(args, Some(codec)).await,
            (None, DataType::F32) => measure::<f32, Plain<f32>>(args, None).await,
            (None, DataType::I32) => measure::<i32, Plain<i32>>(args, None).await,
            (None, DataType::F16) => measure::<f16, Plain<f16>>(args, None).await,
            (None, DataType::Bf16) => measure::<bf16, Plain<bf16>>(args, None).await,
        }
    })?;
    report.print(args.json)
}

/// One way to reduce a tensor, iteration after iteration.
trait Work: Sized {
    /// Prepares to reduce tensors of `elements` elements.
    async fn new(job: &Job, args: &AllReduceArgs, elements: usize) -> Result<Self>;

    /// Fills in this rank's contribution to an iteration.
    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()>;

    /// Replaces the contribution by the sum.
    async fn reduce(&mut self, job: &Job, name: &str) -> Result<()>;

    /// Compares the sum with the expected one.
    fn check(&mut self, job: &Job, iteration: u32) -> Result<()>;

    /// How long the last all-reduce spent in the agent; `None` if the iteration was not a single call.
    fn in_agent(&self) -> Option<Duration> {
        None
    }

    /// What quantisation saved and cost; `None` without a codec.
    fn quantisation(&self) -> Option<Quantisation> {
        None
    }
}

async fn measure<T: Number, W: Work>(args: &AllReduceArgs, codec: Option<Codec>) -> Result<Report> {
    let elements = elements::<T>(args)?;
    let progress = progress_bar(args);
    progress.set_message("waiting for the job's other members");
    let job = args.part.take(options(args, &progress)).await?;
    progress.set_message(format!("rank {} of {}", job.rank(), job.ranks().len()));
    warm_up::<T, W>(&job, args, elements).await?;
    let mut work = W::new(&job, args, elements).await?;
    let mut barrier = if args.barrier { Some(Barrier::new(&job).await?) } else { None };
    let before = job.stats().await?;
    let (mut times, mut overheads) = (Vec::new(), Vec::new());
    for iteration in 0..args.iterations {
        let timing = reduce(&job, &mut work, iteration, &mut barrier).await?;
        overheads.extend(work.in_agent().map(|in_agent| timing.took.saturating_sub(in_agent)));
        times.push(timing);
        if args.check {
            work.check(&job, iteration)?;
        }
        progress.inc(1);
    }
    let after = job.stats().await?;
    let report = Report {
        host: job.host().to_owned(),
        rank: job.rank(),
        workers: job.ranks().len(),
        bytes: (elements * size_of::<T>()) as u64,
        elements,
        tensors: args.tensors,
        in_flight: args.in_flight.min(args.tensors),
        dtype: args.dtype.name(),
        codec: codec.map(Codec::name),
        quantisation: work.quantisation(),
        checked: args.check,
        slices: after.slices_sent - before.slices_sent,
        retransmissions: after.slices_retransmitted - before.slices_retransmitted,
        times,
        overheads,
    };
    job.close().await?;
    progress.finish_and_clear();
    Ok(report)
}

/// Options for joining the job. What the process waits for goes to standard error, even where that is no terminal.
fn options(args: &AllReduceArgs, progress: &ProgressBar) -> JoinOptions {
    let progress = progress.clone();
    let options =
        JoinOptions::default().on_waiting(move |waiting| progress.suspend(|| eprintln!("{waiting}")));
    match args.deadline {
        Some(deadline) => options.deadline(deadline),
        None => options,
    }
}

/// Parses a positive time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "a number of seconds is needed, such as 2.5, and more than 0".to_owned())
}

/// One all-reduce of a tensor of the size that `--warm-up` gives; none if that is 0.
async fn warm_up<T: Number, W: Work>(job: &Job, args: &AllReduceArgs, most: usize) -> Result<()> {
    let elements = usize::try_from(args.warm_up.as_u64())?.div_ceil(size_of::<T>()).min(most);
    if elements > 0 {
        let elements = elements.max(args.tensors as usize);
        let mut work = W::new(job, args, elements).await?;
        work.fill(job, 0)?;
        work.reduce(job, "warm-up").await?;
    }
    Ok(())
}

/// One all-reduce; the time returned is that of the call alone.
async fn reduce(
    job: &Job,
    work: &mut impl Work,
    iteration: u32,
    barrier: &mut Option<Barrier>,
) -> Result<Timing> {
    work.fill(job, iteration)?;
    if let Some(barrier) = barrier {
        barrier.pass(job).await?;
    }
    let timing = Timing::of(work.reduce(job, &format!("iteration {iteration}"))).await?;
    // The check takes processor time, so no rank checks while another one still reduces.
    if let Some(barrier) = barrier {
        barrier.pass(job).await?;
    }
    Ok(timing)
}

fn elements<T>(args: &AllReduceArgs) -> Result<usize> {
    let bytes = usize::try_from(args.size.as_u64())?;
    ensure!(
        bytes > 0 && bytes.is_multiple_of(size_of::<T>()),
        "--size {bytes}: give a whole number of elements"
    );
    let (elements, tensors) = (bytes / size_of::<T>(), args.tensors);
    ensure!(
        elements >= tensors as usize,
        "--tensors {tensors}: there are {elements} elements, and each tensor needs one"
    );
    Ok(elements)
}

fn progress_bar(args: &AllReduceArgs) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    // indicatif draws on standard error, and only where that is a terminal.
    let bar = ProgressBar::new(args.iterations.into());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
