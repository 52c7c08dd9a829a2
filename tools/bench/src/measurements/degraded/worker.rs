//! `tributary-bench degraded-worker`: the training process of a worker in the measurement.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use tokio::runtime;
use tokio::time::sleep;
use tributary_cli::output;
use tributary_client::{ClientError, Job, JoinOptions, Operation, Regroup, Run, Segment};
use tributary_trainer::{Digits, ElasticLearner, PARAMETERS, Shards, Training};

use super::device::Device;
use super::event::WorkerEvent;
use tributary::PartArgs;

/// Time that a process waits before it tries to rejoin a job that it has lost.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Options of a worker.
#[derive(Debug, Clone, Args)]
pub(crate) struct DegradedWorkerArgs {
    #[command(flatten)]
    part: PartArgs,

    /// Workers of the job
    #[arg(long, env = "TRIBUTARY_WORLD_SIZE")]
    workers: u16,

    /// Steps of the training
    #[arg(long)]
    steps: u32,

    /// Seed of the model's first weights and of the order of the data
    #[arg(long)]
    seed: u64,

    /// Time of the emulated device for each step, in microseconds
    #[arg(long)]
    step_microseconds: u64,

    /// Time of the emulated device for each sample, in microseconds
    #[arg(long)]
    sample_microseconds: u64,
}

/// Trains until all steps are done, then stays in the job until it is killed.
///
/// # Errors
/// The data cannot be read, or the receiver of the reports is gone. Other errors are reported, and the worker retries.
pub(crate) fn run(args: &DegradedWorkerArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(train(args))
}

async fn train(args: &DegradedWorkerArgs) -> Result<()> {
    let digits = Digits::embedded()?;
    loop {
        // On a busy machine a host can seem to be cut off for a short time. The worker then rejoins.
        let Err(error) = take_part(args, &digits).await;
        output::complain(format_args!("{error:#}"));
        say(&WorkerEvent::Out)?;
        sleep(RETRY_INTERVAL).await;
    }
}

/// Trains while this process is in the job.
async fn take_part(args: &DegradedWorkerArgs, digits: &Digits) -> Result<Infallible> {
    let job = args.part.take(JoinOptions::default().elastic()).await?;
    let training = Training::new(args.workers, args.steps, args.seed)?;
    let shards = Shards::by_class(&digits.training.labels().collect::<Vec<_>>(), args.workers)?;
    let rank = u16::try_from(job.rank())?;
    let learner = ElasticLearner::new(&training, digits.training.clone(), shards, rank)?;
    let mut worker = Worker {
        state: job.segment(ElasticLearner::STATE_LEN * size_of::<f32>()).await?,
        gradient: job.segment(PARAMETERS * size_of::<f32>()).await?,
        device: Device {
            step: Duration::from_micros(args.step_microseconds),
            sample: Duration::from_micros(args.sample_microseconds),
        },
        job,
        learner,
        last: Instant::now(),
    };
    while worker.learner.step() < args.steps {
        worker.step().await?;
    }
    let accuracy = worker.learner.model().accuracy(&digits.held_out);
    say(&WorkerEvent::Done { accuracy, digest: digest(worker.learner.model().parameters()) })?;
    // If this worker left the job now, the other workers would treat it as lost.
    std::future::pending().await
}

struct Worker {
    job: Job,
    learner: ElasticLearner,
    device: Device,
    gradient: Segment,
    state: Segment,
    /// The time at which the last step ended.
    last: Instant,
}

impl Worker {
    /// Makes one step. If this worker is not in the job, only its device works for the time of a step.
    async fn step(&mut self) -> Result<()> {
        self.synchronise().await?;
        let samples = self.learner.gradient(self.gradient.elements_mut()?)?;
        self.device.work(samples);
        let operation = Operation { name: "gradient", weight: samples, ..Operation::whole::<f32>() };
        match self.job.all_reduce(&mut self.gradient, operation).await {
            Ok(runs) => self.apply(&runs),
            // The next step starts by handling the change.
            Err(ClientError::Regroup(_)) => Ok(()),
            Err(ClientError::Detached(detached)) => {
                say(&WorkerEvent::Detached { data_adopted: detached.data_adopted })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn apply(&mut self, runs: &[Run]) -> Result<()> {
        let run = runs.first().context("a gradient has values")?;
        // If a member was lost during the operation, its gradient is in only a part of the sum.
        let mut rest = self.gradient.elements_mut::<f32>()?;
        for Run { elements, weight, .. } in runs {
            let parts = rest.split_at_mut_checked(usize::try_from(*elements)?);
            let (stretch, others) = parts.context("the runs are longer than the gradient")?;
            let scale = run.weight as f32 / (*weight).max(1) as f32;
            stretch.iter_mut().filter(|_| *weight != run.weight).for_each(|value| *value *= scale);
            rest = others;
        }
        let step = self.learner.step();
        self.learner.apply(self.gradient.elements()?, run.weight.into())?;
        let seconds = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        say(&WorkerEvent::Step { step, seconds, members: run.contributors, samples: run.weight })
    }

    /// Takes over the leader's state and the new membership, if the members or their shards have changed.
    async fn synchronise(&mut self) -> Result<()> {
        if self.job.regroup().is_none() {
            return Ok(());
        }
        self.state.elements_mut::<f32>()?.copy_from_slice(&self.learner.state());
        let operation = Operation { name: "state", ..Operation::whole::<f32>() };
        let synchronised = match self.job.synchronise(&mut self.state, operation).await {
            // The worker was detached before it could synchronise. It is out of the job, and keeps its state.
            Err(ClientError::Detached(_)) => return Ok(()),
            synchronised => synchronised?,
        };
        let Some(Regroup { ranks, shards, .. }) = synchronised else { return Ok(()) };
        self.learner.restore(self.state.elements()?)?;
        let [members, shards] = [ranks, shards].map(|ranks| numbers(&ranks));
        let (members, shards) = (members?, shards?);
        self.learner.regroup(&members, &shards)?;
        say(&WorkerEvent::Regrouped { members, shards })
    }
}

fn numbers(ranks: &[u32]) -> Result<Vec<u16>> {
    Ok(ranks.iter().map(|rank| u16::try_from(*rank)).collect::<Result<_, _>>()?)
}

fn digest(parameters: &[f32]) -> u64 {
    let mut digest = DefaultHasher::new();
    parameters.iter().for_each(|value| digest.write_u32(value.to_bits()));
    digest.finish()
}

/// Sends an event to the runner.
///
/// # Errors
/// The runner has ended.
fn say(event: &WorkerEvent) -> Result<()> {
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(event)?)
        .context("the receiver of the reports is gone")
}
