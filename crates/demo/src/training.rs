//! The training. Each worker has a thread that does the work of a user's training process.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use tokio::runtime;
use tributary_client::{Agent, Operation, Stats};
use tributary_trainer::{Digits, Images, Learner, Model, PARAMETERS, Share, Training};
use tributary_wire::SliceWidth;

use crate::cause::first_cause;
use crate::hosts::Worker;
use crate::interruption::{Interrupted, Interruption};
use crate::judge::{Exchange, Verdict};
use crate::running_job::{Creator, JOB, RunningJob};

/// The number of rounds that the workers may be ahead of the comparison.
const ROUNDS_AHEAD: usize = 2;

/// The result of a training.
pub(crate) struct TrainingOutcome {
    /// The final model of all workers. If they differ, the first worker's model.
    pub(crate) model: Model,
    pub(crate) verdict: Verdict,
    /// Wall-clock time in seconds since all workers had joined.
    pub(crate) seconds: f64,
    /// The counters of the workers' agents, in the order of ranks.
    pub(crate) stats: Vec<Stats>,
}

/// Trains on all workers of the job at once, and calls `after_round` after each round.
///
/// # Errors
/// The error of the worker that stopped the training.
pub(crate) fn train(
    training: &Training,
    digits: &Digits,
    job: &RunningJob,
    interruption: &Interruption,
    mut after_round: impl FnMut(),
) -> Result<TrainingOutcome> {
    let (mut threads, mut exchanges) = (Vec::new(), Vec::new());
    let (joins, joined) = channel();
    for (rank, worker) in job.hosts.workers().iter().enumerate() {
        let (sender, receiver) = sync_channel(ROUNDS_AHEAD);
        let trainer = Trainer {
            worker: worker.clone(),
            creator: job.creator.clone(),
            training: *training,
            images: Arc::clone(&digits.training),
            joined: joins.clone(),
            exchanges: sender,
        };
        let (name, interruption) = (format!("trainer {rank}"), interruption.clone());
        threads.push(thread::Builder::new().name(name).spawn(move || trainer.run(&interruption))?);
        exchanges.push(receiver);
    }
    drop(joins);
    let all_joined = joined.iter().count() == exchanges.len();
    let started = Instant::now();
    let verdict = match all_joined {
        true => judge((training.rounds(), job.plan().width), &exchanges, &mut after_round),
        false => None,
    };
    let seconds = started.elapsed().as_secs_f64();
    // The receivers are dropped first. Otherwise a worker that still hands over a round would wait
    // forever.
    drop(exchanges);
    let ends =
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a trainer thread panicked"))?);
    let (models, stats): (Vec<_>, Vec<_>) = first_cause(ends)?.into_iter().unzip();
    let Some(mut verdict) = verdict else { bail!("a worker stopped before the last round") };
    verdict.identical &= models.windows(2).all(|pair| pair[0] == pair[1]);
    let model = models.into_iter().next().context("there are no workers")?;
    Ok(TrainingOutcome { model, verdict, seconds, stats })
}

/// Compares the results of each round; returns `None` if a worker has stopped early.
fn judge(
    (rounds, width): (u32, SliceWidth),
    workers: &[Receiver<Exchange>],
    after_round: &mut impl FnMut(),
) -> Option<Verdict> {
    let mut verdict = Verdict::default();
    for _ in 0..rounds {
        let round = workers.iter().map(|worker| worker.recv().ok()).collect::<Option<Vec<_>>>()?;
        verdict.add_round(width, &round);
        after_round();
    }
    Some(verdict)
}

/// One worker's training process.
struct Trainer {
    worker: Worker,
    creator: Creator,
    training: Training,
    images: Arc<Images>,
    joined: Sender<()>,
    exchanges: SyncSender<Exchange>,
}

impl Trainer {
    fn run(self, interruption: &Interruption) -> Result<(Model, Stats)> {
        let (host, creator) = (self.worker.host.clone(), self.creator.clone());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let end = runtime.block_on(async {
            let end = interruption.or(self.train()).await;
            if end.as_ref().is_err_and(|error| !error.is::<Interrupted>()) {
                // End the job, so that other workers do not wait for this worker. An error means that the job is over
                // already.
                let _ = creator.end_job().await;
            }
            end
        });
        end.with_context(|| host)
    }

    /// Joins the job through the host's agent, trains, and leaves the job.
    async fn train(self) -> Result<(Model, Stats)> {
        let Self { worker, creator, training, images, joined, exchanges } = self;
        let job = Agent::connect(&worker.socket).await?.join(JOB, creator.token).await?;
        let mut segment = job.segment(PARAMETERS * size_of::<f32>()).await?;
        // A send error means that another worker has failed. That worker's error is reported instead. The
        // same applies to the sends below.
        let _ = joined.send(());
        drop(joined);
        let mut learner = Learner::new(&training, images, Share::Worker(u16::try_from(job.rank())?))?;
        for round in 0..training.rounds() {
            learner.gradient(segment.elements_mut()?)?;
            let gradient = segment.elements::<f32>()?.to_vec();
            let name = format!("gradient of round {round}");
            job.all_reduce(&mut segment, Operation { name: &name, ..Operation::whole::<f32>() }).await?;
            let sum = segment.elements::<f32>()?;
            learner.apply(sum, training.global_batch() as u64)?;
            let _ = exchanges.send(Exchange { gradient, sum: sum.to_vec() });
        }
        let stats = job.stats().await?;
        job.release(segment).await?;
        job.close().await?;
        Ok((learner.model().clone(), stats))
    }
}
