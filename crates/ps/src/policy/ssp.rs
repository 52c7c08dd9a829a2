//! Stale-synchronous: no worker gets too far ahead.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Policy, Progress, Worker, apply_alone};

/// Every gradient is a separate update. A worker may start an iteration while it is at most `bound`
/// iterations ahead of the slowest worker. With a bound of 0, all workers proceed in step, as under
/// BSP.
#[derive(Debug)]
pub struct Ssp {
    pub(super) progress: Progress,
    pub(super) bound: u64,
    /// Workers that wait because they are too far ahead.
    pub(super) held: BTreeSet<Worker>,
}

impl Ssp {
    /// The default for the number of iterations that a worker may be ahead.
    pub const DEFAULT_BOUND: u64 = 3;

    /// Creates a policy without workers.
    pub fn new(epoch_iterations: NonZeroU64, bound: u64) -> Self {
        Self { progress: Progress::new(epoch_iterations), bound, held: BTreeSet::new() }
    }

    /// Releases the workers that are not too far ahead any more.
    pub(super) fn look(&mut self) -> Vec<Action> {
        let limit = self.progress.slowest().unwrap_or(0).saturating_add(self.bound);
        let progress = &self.progress;
        let released: Vec<_> =
            self.held.extract_if(.., |&worker| progress.iterations(worker) <= limit).collect();
        released.into_iter().map(Action::Release).collect()
    }
}

impl Policy for Ssp {
    fn name(&self) -> &'static str {
        "ssp"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.progress.join(worker, iterations);
        self.held.insert(worker);
        self.look()
    }

    fn arrive(&mut self, worker: Worker, _now: Instant) -> Vec<Action> {
        if !self.progress.count(worker) {
            return Vec::new();
        }
        self.held.insert(worker);
        let mut actions = vec![apply_alone(worker)];
        actions.extend(self.look());
        actions
    }

    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.progress.leave(worker);
        self.held.remove(&worker);
        self.look()
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn group(&self) -> BTreeSet<Worker> {
        BTreeSet::new()
    }
}
