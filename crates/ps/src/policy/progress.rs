//! The progress of each worker.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// The rank of a worker in its job.
pub type Worker = u16;

/// The present workers, with the number of gradients that each has handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    epoch_iterations: NonZeroU64,
    iterations: BTreeMap<Worker, u64>,
}

impl Progress {
    /// No workers; an epoch is `epoch_iterations` iterations of one worker.
    pub fn new(epoch_iterations: NonZeroU64) -> Self {
        Self { epoch_iterations, iterations: BTreeMap::new() }
    }

    /// Adds a worker at these iterations, or at the slowest worker's if those are more.
    pub(super) fn join(&mut self, worker: Worker, iterations: u64) {
        self.iterations.remove(&worker);
        let iterations = iterations.max(self.slowest().unwrap_or(0));
        self.iterations.insert(worker, iterations);
    }

    /// Counts a gradient; returns whether its worker has joined.
    pub(super) fn count(&mut self, worker: Worker) -> bool {
        let Some(iterations) = self.iterations.get_mut(&worker) else { return false };
        *iterations += 1;
        true
    }

    pub(super) fn leave(&mut self, worker: Worker) {
        self.iterations.remove(&worker);
    }

    /// All present workers.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = Worker> + '_ {
        self.iterations.keys().copied()
    }

    /// The number of gradients that a worker has handed in; 0 for one that is not present.
    pub fn iterations(&self, worker: Worker) -> u64 {
        self.iterations.get(&worker).copied().unwrap_or(0)
    }

    /// The epochs that a worker has finished.
    pub fn epoch(&self, worker: Worker) -> u64 {
        self.epochs_of(self.iterations(worker))
    }

    /// The number of epochs in `iterations` iterations of one worker.
    pub(super) fn epochs_of(&self, iterations: u64) -> u64 {
        iterations / self.epoch_iterations
    }

    /// The iterations of the slowest worker; `None` without workers.
    pub fn slowest(&self) -> Option<u64> {
        self.iterations.values().min().copied()
    }

    /// The number of epochs that all workers have finished. The learning rate decays with it.
    pub fn slowest_epoch(&self) -> u64 {
        self.epochs_of(self.slowest().unwrap_or(0))
    }
}
