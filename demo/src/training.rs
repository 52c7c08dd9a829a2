//! The training: a thread for each worker, and one gradient and one all-reduce a round.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use tributary_host_agent::AgentError;
use tributary_protocol::{AllReduce, GradientData, Sums};
use tributary_trainer::{Digits, Learner, Model, PARAMETERS, Share, Training};
use tributary_wire::SliceWidth;

use crate::judge::{Exchange, Verdict};
use crate::members::Worker;

/// How many rounds workers may be ahead of the judge.
const ROUNDS_AHEAD: usize = 2;

/// The result of a training.
pub(crate) struct Outcome {
    /// The final model of all workers; the first worker's if they differ.
    pub(crate) model: Model,
    pub(crate) verdict: Verdict,
}

/// Trains on all workers at once, in rank order, in slices of this width, and calls `after_round` after each round.
///
/// # Errors
/// The error that stopped the training: that of an all-reduce.
pub(crate) fn train(
    training: &Training,
    digits: &Digits,
    workers: &[Worker],
    width: SliceWidth,
    mut after_round: impl FnMut(),
) -> Result<Outcome> {
    let mut threads = Vec::new();
    let mut exchanges = Vec::new();
    for (rank, worker) in (0..).zip(workers) {
        let (sender, receiver) = sync_channel(ROUNDS_AHEAD);
        let learner = Learner::new(training, Arc::clone(&digits.training), Share::Worker(rank))?;
        let trainer = Trainer { worker: worker.clone(), training: *training, exchanges: sender };
        threads.push(
            thread::Builder::new().name(format!("trainer {rank}")).spawn(move || trainer.run(learner))?,
        );
        exchanges.push(receiver);
    }
    let verdict = judge((training.rounds(), width), &exchanges, &mut after_round);
    // Otherwise a worker that still hands over a round would wait for ever.
    drop(exchanges);
    let ends =
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a trainer thread panicked"))?);
    let models = first_cause(ends)?;
    let Some(mut verdict) = verdict else { bail!("a worker stopped before the last round") };
    verdict.identical &= models.windows(2).all(|pair| pair[0] == pair[1]);
    let model = models.into_iter().next().context("there are no workers")?;
    Ok(Outcome { model, verdict })
}

/// All models, or the error that caused the others: a failed worker ends the job for all.
fn first_cause(ends: impl Iterator<Item = Result<Model>>) -> Result<Vec<Model>> {
    let mut models = Vec::new();
    let mut errors = Vec::new();
    for end in ends {
        match end {
            Ok(model) => models.push(model),
            Err(error) => errors.push(error),
        }
    }
    let is_consequence =
        |error: &anyhow::Error| matches!(error.downcast_ref(), Some(AgentError::Ended { .. }));
    errors.sort_by_key(is_consequence);
    errors.into_iter().next().map_or(Ok(models), Err)
}

/// Judges round after round; `None` if a worker has ended early.
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
    training: Training,
    exchanges: SyncSender<Exchange>,
}

impl Trainer {
    fn run(self, learner: Learner) -> Result<Model> {
        let end = self.rounds(learner);
        if let Err(error) = &end {
            self.worker.report_fault(&format!("{error:#}"));
        }
        end
    }

    fn rounds(&self, mut learner: Learner) -> Result<Model> {
        for round in 0..self.training.rounds() {
            let mut gradient = vec![0.0; PARAMETERS];
            learner.gradient(&mut gradient)?;
            let operation = AllReduce {
                name: format!("gradient of round {round}"),
                data: GradientData::F32(gradient.clone()),
                weight: 1,
            };
            let reduced =
                self.worker.agent.all_reduce(operation).with_context(|| self.worker.host.clone())?;
            let Sums::F32(sum) = reduced.sums else { bail!("an all-reduce of f32 returned another type") };
            learner.apply(&sum, self.training.global_batch() as u64)?;
            // The judge is gone if another worker failed; then that worker's error counts.
            let _ = self.exchanges.send(Exchange { gradient, sum });
        }
        Ok(learner.model().clone())
    }
}
