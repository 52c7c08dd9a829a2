//! `tributary allreduce`: measures all-reduces through the agent of this host.

mod args;
mod barrier;
mod contribution;
mod plain;
mod quantised;
mod report;
mod work;

use anyhow::{Result, ensure};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_cli::output;
use tributary_client::{Job, JoinOptions};

pub(crate) use args::AllReduceArgs;
use args::{Codec, DataType};
use barrier::Barrier;
use contribution::Number;
use plain::Plain;
use quantised::Quantised;
use report::{AllReduceReport, Timing};
use work::Work;

use crate::daemons::service::WrongUse;

/// Measures all-reduces, and prints the report.
///
/// # Errors
/// No agent runs, the job cannot be joined or fails, or a sum is wrong.
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

async fn measure<T: Number, W: Work>(args: &AllReduceArgs, codec: Option<Codec>) -> Result<AllReduceReport> {
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
    let report = AllReduceReport {
        host: job.host().to_owned(),
        rank: job.rank(),
        workers: job.ranks().len(),
        lost: job.lost(),
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

/// Returns the options for joining the job. The reason for a wait is printed on standard error, even if
/// that is not a terminal.
fn options(args: &AllReduceArgs, progress: &ProgressBar) -> JoinOptions {
    let progress = progress.clone();
    let options =
        JoinOptions::default().on_waiting(move |waiting| progress.suspend(|| output::complain(waiting)));
    match args.deadline {
        Some(deadline) => options.deadline(deadline),
        None => options,
    }
}

/// Runs one all-reduce of a tensor whose size is the value of `--warm-up`; none if the size is 0.
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

/// Runs one all-reduce. The returned time covers only the call.
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
    // The check needs processor time, so it starts only when no rank is reducing any more.
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
        "--tensors {tensors}: there are only {elements} elements, and each tensor needs at least one"
    );
    Ok(elements)
}

fn progress_bar(args: &AllReduceArgs) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    // indicatif draws on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(args.iterations.into());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
