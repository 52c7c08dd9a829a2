//! Bulk-synchronous: all workers wait for each other.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Policy, Progress, WeightedGradient, Worker};

/// One update per round, by the mean of all workers' gradients. A worker waits for the end of the
/// round.
#[derive(Debug)]
pub struct Bsp {
    progress: Progress,
    /// Workers whose gradients of this round have arrived.
    arrived: BTreeSet<Worker>,
}

impl Bsp {
    /// Creates a policy without workers.
    pub fn new(epoch_iterations: NonZeroU64) -> Self {
        Self { progress: Progress::new(epoch_iterations), arrived: BTreeSet::new() }
    }

    /// Returns true if some of the round's gradients have arrived, but not all.
    pub(super) fn is_within_a_round(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Ends the round if no worker's gradient is missing.
    fn look(&mut self) -> Vec<Action> {
        if self.arrived.is_empty() || self.arrived.len() < self.progress.workers().len() {
            return Vec::new();
        }
        let everyone = std::mem::take(&mut self.arrived);
        let parts = everyone.iter().map(|&worker| WeightedGradient { worker, weight: 1 }).collect();
        let mut actions = vec![Action::Apply(parts)];
        actions.extend(everyone.into_iter().map(Action::Release));
        actions
    }
}

impl Policy for Bsp {
    fn name(&self) -> &'static str {
        "bsp"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.progress.join(worker, iterations);
        vec![Action::Release(worker)]
    }

    fn arrive(&mut self, worker: Worker, _now: Instant) -> Vec<Action> {
        if self.progress.count(worker) {
            self.arrived.insert(worker);
        }
        self.look()
    }

    /// Removes a worker. If its gradient has arrived, the gradient is not used.
    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.progress.leave(worker);
        self.arrived.remove(&worker);
        self.look()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn group(&self) -> BTreeSet<Worker> {
        self.progress.workers().collect()
    }
}
