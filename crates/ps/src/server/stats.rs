//! The figures of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::policy::Worker;

/// A job's figures since this process started it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobStats {
    /// Updates of the parameters, including those before a restart.
    pub updates: u64,
    /// Epochs that every worker has finished.
    pub epoch: u64,
    /// The synchronous group.
    pub group: BTreeSet<Worker>,
    /// All workers that were ever connected.
    pub workers: BTreeMap<Worker, WorkerStats>,
    /// Checkpoints written to disk.
    pub checkpoints: u64,
    /// Checkpoints that could not be written.
    pub checkpoint_failures: u64,
    /// Updates by a sum that the fabric has made.
    pub fabric_rounds: u64,
    /// Contributions of zeros to such sums, requested from workers whose gradients were late.
    pub fabric_zeros: u64,
    /// Updates that were to use such a sum, but whose gradients came over TCP in the end.
    pub fabric_fallbacks: u64,
    /// True if some parameter is infinite or not a number.
    pub diverged: bool,
    /// Messages that could not be used; each has ended its worker's session.
    pub refused: u64,
}

/// One worker's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerStats {
    /// True if the worker is connected.
    pub connected: bool,
    /// Its gradients that were used.
    pub gradients: u64,
    /// The sum, over its gradients, of the updates between pull and use.
    pub staleness: u64,
    /// Time that it has waited here to be released.
    pub idle: Duration,
    /// Time that it has computed and communicated: the rest.
    pub busy: Duration,
}

impl JobStats {
    pub(super) fn worker(&mut self, worker: Worker) -> &mut WorkerStats {
        self.workers.entry(worker).or_default()
    }

    /// Counts a gradient that was used `staleness` updates after its parameters.
    pub(super) fn used(&mut self, worker: Worker, staleness: u64) {
        let stats = self.worker(worker);
        stats.gradients += 1;
        stats.staleness += staleness;
    }

    /// The number of all workers' gradients that were used.
    pub fn gradients(&self) -> u64 {
        self.workers.values().map(|worker| worker.gradients).sum()
    }

    /// The mean number of updates between a worker's pull and the use of its gradient.
    pub fn staleness(&self) -> f64 {
        let total: u64 = self.workers.values().map(|worker| worker.staleness).sum();
        total as f64 / self.gradients().max(1) as f64
    }
}
