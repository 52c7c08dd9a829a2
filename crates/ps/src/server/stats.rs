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
    /// The workers of the synchronous group.
    pub group: BTreeSet<Worker>,
    /// All workers that were ever connected.
    pub workers: BTreeMap<Worker, WorkerStats>,
    /// Checkpoints written to disk.
    pub checkpoints: u64,
    /// Checkpoints that could not be written.
    pub checkpoint_failures: u64,
    /// Updates that used a sum from the fabric.
    pub fabric_rounds: u64,
    /// Contributions of zeros to the fabric's sums, requested from workers whose gradients were late.
    pub fabric_zeros: u64,
    /// Updates that waited for a sum of the fabric, but whose gradients came over TCP in the end.
    pub fabric_fallbacks: u64,
    /// True if some parameter is infinite or not a number.
    pub diverged: bool,
    /// Invalid messages; each has ended the session of its worker.
    pub refused: u64,
}

/// One worker's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerStats {
    /// True if the worker is connected.
    pub connected: bool,
    /// The number of the worker's gradients that were used.
    pub gradients: u64,
    /// The number of updates between the pull and the use of a gradient, summed over the worker's
    /// gradients.
    pub staleness: u64,
    /// Time that the worker has waited at this server for its release.
    pub idle: Duration,
    /// Time that the worker has computed and communicated: the rest of the time.
    pub busy: Duration,
}

impl JobStats {
    pub(super) fn worker(&mut self, worker: Worker) -> &mut WorkerStats {
        self.workers.entry(worker).or_default()
    }

    /// Counts a gradient that was used `staleness` updates after the worker got its parameters.
    pub(super) fn used(&mut self, worker: Worker, staleness: u64) {
        let stats = self.worker(worker);
        stats.gradients += 1;
        stats.staleness += staleness;
    }

    /// Returns the number of all workers' gradients that were used.
    pub fn gradients(&self) -> u64 {
        self.workers.values().map(|worker| worker.gradients).sum()
    }

    /// Returns the mean number of updates between a worker's pull and the use of its gradient.
    pub fn staleness(&self) -> f64 {
        let total: u64 = self.workers.values().map(|worker| worker.staleness).sum();
        total as f64 / self.gradients().max(1) as f64
    }
}
