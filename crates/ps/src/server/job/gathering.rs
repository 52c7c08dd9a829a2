//! The time before training starts, while the workers join.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use crate::policy::Worker;

/// The workers that have joined before training starts.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    present: BTreeSet<Worker>,
    /// The time at which training starts without the missing workers; `None` if no worker is present.
    until: Option<Instant>,
}

impl Gathering {
    /// Adds a worker. The first worker's arrival and `patience` determine how long the others have.
    pub(super) fn join(&mut self, worker: Worker, now: Instant, patience: Duration) {
        self.present.insert(worker);
        self.until.get_or_insert(now + patience);
    }

    pub(super) fn leave(&mut self, worker: Worker) {
        self.present.remove(&worker);
        if self.present.is_empty() {
            self.until = None;
        }
    }

    /// Returns the workers with a number below `workers` that have not joined.
    pub(super) fn missing(&self, workers: NonZeroU16) -> BTreeSet<Worker> {
        (0..workers.get()).filter(|worker| !self.present.contains(worker)).collect()
    }

    /// Returns the time at which training starts without the missing workers.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the gathering, and returns the workers that are present.
    pub(super) fn end(self) -> BTreeSet<Worker> {
        self.present
    }
}
