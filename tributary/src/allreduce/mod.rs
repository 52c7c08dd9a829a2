//! `tributary allreduce`: measures all-reduces through the agent of this host.

mod contribution;
mod report;

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_client::{Agent, Job, Operation, Segment};

use contribution::Number;
use report::{Report, Timing};

use crate::options::DEFAULT_SOCKET;
use crate::remote::read_token;

/// Reduces over all members of a job, through the agent of this host, and says how long it took.
///
/// To be run on every worker of the job with the same options.
#[derive(Debug, Args)]
pub(crate) struct AllReduceArgs {
    /// The agent's Unix socket
    #[arg(long, value_name = "PATH", env = "TRIBUTARY_SOCKET", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,

    /// The job's name
    #[arg(long, value_name = "NAME", env = "TRIBUTARY_JOB")]
    job: String,

    /// File with the job's token, as `tributary jobs create` wrote it
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_TOKEN_FILE")]
    token_file: PathBuf,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "16MiB")]
    size: ByteSize,

    /// How its elements are stored
    #[arg(long, value_enum, default_value_t = DataType::F32)]
    dtype: DataType,

    /// How often to reduce
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Reduce this much of the tensor once before anything is measured: the first all-reduce of a process pays
    /// for memory that nobody has touched yet
    #[arg(long, value_name = "BYTES", default_value = "0")]
    warm_up: ByteSize,

    /// Compare every sum with what it has to be
    #[arg(long)]
    check: bool,

    /// Let all ranks begin and end each iteration together: no rank's time has its wait for another that is
    /// not there yet
    #[arg(long)]
    barrier: bool,

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

impl DataType {
    /// Its name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Measures and prints.
///
/// # Errors
/// No agent, a job that cannot be joined or fails, a sum that is wrong.
pub(crate) fn run(args: &AllReduceArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        match args.dtype {
            DataType::F32 => measure::<f32>(args).await,
            DataType::I32 => measure::<i32>(args).await,
            DataType::F16 => measure::<f16>(args).await,
            DataType::Bf16 => measure::<bf16>(args).await,
        }
    })?;
    report.print(args.json)
}

async fn measure<T: Number>(args: &AllReduceArgs) -> Result<Report> {
    let elements = elements::<T>(args)?;
    let token = read_token(&args.token_file)?;
    let agent = Agent::connect(&args.socket).await?;
    let progress = progress_bar(args);
    progress.set_message("waiting for the job's other members");
    let mut job = agent.join(&args.job, token).await?;
    progress.set_message(format!("rank {} of {}", job.rank(), job.ranks().len()));
    let mut segment = job.segment(elements * size_of::<T>()).await?;
    warm_up::<T>(&mut job, &mut segment, args.warm_up).await?;
    let mut barrier = if args.barrier { Some(Barrier::new(&mut job).await?) } else { None };
    let before = job.stats().await?;
    let mut times = Vec::new();
    for iteration in 0..args.iterations {
        times.push(reduce::<T>(&mut job, &mut segment, iteration, &mut barrier).await?);
        if args.check {
            check::<T>(&job, &segment, iteration)?;
        }
        progress.inc(1);
    }
    let after = job.stats().await?;
    let report = Report {
        host: job.host().to_owned(),
        rank: job.rank(),
        workers: job.ranks().len(),
        bytes: segment.len() as u64,
        elements,
        dtype: args.dtype.name(),
        checked: args.check,
        retransmissions: after.slices_retransmitted - before.slices_retransmitted,
        times,
    };
    job.close().await?;
    progress.finish_and_clear();
    Ok(report)
}

/// One all-reduce of the tensor's first `size`, rounded up to whole elements; none if that is nothing.
async fn warm_up<T: Number>(job: &mut Job, segment: &mut Segment, size: ByteSize) -> Result<()> {
    let most = segment.len() / size_of::<T>();
    let elements = usize::try_from(size.as_u64())?.div_ceil(size_of::<T>()).min(most);
    if elements > 0 {
        contribution::fill(segment.elements_mut::<T>()?, job.rank(), 0);
        let operation = Operation { name: "warm-up", elements: Some(0..elements), ..Operation::whole::<T>() };
        job.all_reduce(segment, operation).await.context("the warm-up")?;
    }
    Ok(())
}

/// One all-reduce; its time is that of the call alone.
async fn reduce<T: Number>(
    job: &mut Job,
    segment: &mut Segment,
    iteration: u32,
    barrier: &mut Option<Barrier>,
) -> Result<Timing> {
    let rank = job.rank();
    contribution::fill(segment.elements_mut::<T>()?, rank, iteration);
    let name = format!("iteration {iteration}");
    let operation = Operation { name: &name, ..Operation::whole::<T>() };
    if let Some(barrier) = barrier {
        barrier.pass(job).await?;
    }
    let (began, started) = (SystemTime::now(), Instant::now());
    job.all_reduce(segment, operation).await.with_context(|| format!("rank {rank}, {name}"))?;
    let took = started.elapsed();
    // Nobody checks, which takes the processor, while another rank is still at it.
    if let Some(barrier) = barrier {
        barrier.pass(job).await?;
    }
    Ok(Timing { began, took })
}

fn check<T: Number>(job: &Job, segment: &Segment, iteration: u32) -> Result<()> {
    match contribution::find_wrong(segment.elements::<T>()?, job.ranks(), iteration) {
        Some(wrong) => bail!("rank {}, iteration {iteration}: {wrong}", job.rank()),
        None => Ok(()),
    }
}

/// Where all ranks wait for each other: an all-reduce of one element.
#[derive(Debug)]
struct Barrier(Segment);

impl Barrier {
    async fn new(job: &mut Job) -> Result<Self> {
        Ok(Self(job.segment(size_of::<i32>()).await?))
    }

    async fn pass(&mut self, job: &mut Job) -> Result<()> {
        self.0.elements_mut::<i32>()?.fill(0);
        let operation = Operation { name: "barrier", ..Operation::whole::<i32>() };
        let passed = job.all_reduce(&mut self.0, operation).await;
        passed.with_context(|| format!("rank {}, barrier", job.rank()))?;
        Ok(())
    }
}

fn elements<T>(args: &AllReduceArgs) -> Result<usize> {
    let bytes = usize::try_from(args.size.as_u64())?;
    ensure!(
        bytes > 0 && bytes.is_multiple_of(size_of::<T>()),
        "--size {bytes}: give a whole number of elements"
    );
    Ok(bytes / size_of::<T>())
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
