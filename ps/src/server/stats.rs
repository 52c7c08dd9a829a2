//! What a job tells about itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::policy::Worker;

/// A job's figures since this process started it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobStats {
    /// Updates of the parameters, those before a restart included.
    pub updates: u64,
    /// Epochs that every worker has finished.
    pub epoch: u64,
    /// The synchronous group.
    pub group: BTreeSet<Worker>,
    /// Those who have ever been there.
    pub workers: BTreeMap<Worker, WorkerStats>,
    /// Checkpoints that are on disk.
    pub checkpoints: u64,
    /// Updates by a sum that the fabric has made.
    pub fabric_rounds: u64,
    /// Contributions of zeros to such sums that workers were asked for, since their gradients were late.
    pub fabric_zeros: u64,
    /// Updates that were to be made by such a sum, and whose gradients came over TCP after all.
    pub fabric_fallbacks: u64,
    /// Messages that could not be used: each has ended its worker's session.
    pub refused: u64,
}

/// One worker's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerStats {
    /// Whether it is there.
    pub connected: bool,
    /// Its gradients that were used.
    pub gradients: u64,
    /// Updates between its pulls and the uses of its gradients, added up.
    pub staleness: u64,
    /// How long it has waited here to be released.
    pub idle: Duration,
    /// How long it has computed and talked: the rest of the time.
    pub busy: Duration,
}

impl JobStats {
    pub(super) fn worker(&mut self, worker: Worker) -> &mut WorkerStats {
        self.workers.entry(worker).or_default()
    }

    /// A gradient was used, so many updates after the parameters that it came from.
    pub(super) fn used(&mut self, worker: Worker, staleness: u64) {
        let stats = self.worker(worker);
        stats.gradients += 1;
        stats.staleness += staleness;
    }

    /// All workers' gradients that were used.
    pub fn gradients(&self) -> u64 {
        self.workers.values().map(|worker| worker.gradients).sum()
    }

    /// Mean number of updates between a worker's pull and the use of its gradient.
    pub fn staleness(&self) -> f64 {
        let total: u64 = self.workers.values().map(|worker| worker.staleness).sum();
        total as f64 / self.gradients().max(1) as f64
    }
}
