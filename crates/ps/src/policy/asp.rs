//! Asynchronous: no worker waits.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Policy, Progress, Worker, apply_alone};

/// Every gradient is a separate update, and the policy releases its worker at once.
#[derive(Debug)]
pub struct Asp {
    progress: Progress,
}

impl Asp {
    /// Creates a policy without workers.
    pub fn new(epoch_iterations: NonZeroU64) -> Self {
        Self { progress: Progress::new(epoch_iterations) }
    }
}

impl Policy for Asp {
    fn name(&self) -> &'static str {
        "asp"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.progress.join(worker, iterations);
        vec![Action::Release(worker)]
    }

    fn arrive(&mut self, worker: Worker, _now: Instant) -> Vec<Action> {
        if !self.progress.count(worker) {
            return Vec::new();
        }
        vec![apply_alone(worker), Action::Release(worker)]
    }

    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.progress.leave(worker);
        Vec::new()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn group(&self) -> BTreeSet<Worker> {
        BTreeSet::new()
    }
}
