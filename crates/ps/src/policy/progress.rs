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
    /// Creates a state without workers. An epoch is `epoch_iterations` iterations of one worker.
    pub fn new(epoch_iterations: NonZeroU64) -> Self {
        Self { epoch_iterations, iterations: BTreeMap::new() }
    }

    /// Adds a worker with this number of iterations, or with the slowest worker's number if that is higher.
    pub(super) fn join(&mut self, worker: Worker, iterations: u64) {
        self.iterations.remove(&worker);
        let iterations = iterations.max(self.slowest().unwrap_or(0));
        self.iterations.insert(worker, iterations);
    }

    /// Counts a gradient; returns true if its worker has joined.
    pub(super) fn count(&mut self, worker: Worker) -> bool {
        let Some(iterations) = self.iterations.get_mut(&worker) else { return false };
        *iterations += 1;
        true
    }

    pub(super) fn leave(&mut self, worker: Worker) {
        self.iterations.remove(&worker);
    }

    /// Returns all present workers.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = Worker> + '_ {
        self.iterations.keys().copied()
    }

    /// Returns the number of gradients that a worker has handed in; 0 if the worker is not present.
    pub fn iterations(&self, worker: Worker) -> u64 {
        self.iterations.get(&worker).copied().unwrap_or(0)
    }

    /// Returns the number of epochs that a worker has finished.
    pub fn epoch(&self, worker: Worker) -> u64 {
        self.epochs_of(self.iterations(worker))
    }

    /// Returns the number of epochs in `iterations` iterations of one worker.
    pub(super) fn epochs_of(&self, iterations: u64) -> u64 {
        iterations / self.epoch_iterations
    }

    /// Returns the iterations of the slowest worker; `None` without workers.
    pub fn slowest(&self) -> Option<u64> {
        self.iterations.values().min().copied()
    }

    /// Returns the number of epochs that all workers have finished. The learning rate decays with it.
    pub fn slowest_epoch(&self) -> u64 {
        self.epochs_of(self.slowest().unwrap_or(0))
    }
}
