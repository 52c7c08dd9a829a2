//! Updates on which the policy has decided, but whose gradients have not all arrived at the server.
//! Without I/O; the caller passes the time as an argument.

use std::time::{Duration, Instant};

use crate::policy::{WeightedGradient, Worker};

/// A gradient that the policy has not used yet, or that belongs to a waiting update.
#[derive(Debug)]
pub(super) struct PendingGradient {
    /// The values; `None` if they are still with the worker.
    pub(super) values: Option<Vec<f32>>,
    /// The number of updates in the parameters from which the gradient was computed.
    pub(super) pulled: u64,
}

/// The event for which an update waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The sum of the gradients that are still with their workers.
    Sum { group: u64, round: u64 },
    /// The single gradients of the workers.
    Pushes,
}

/// An update on which the policy has decided.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) parts: Vec<(WeightedGradient, PendingGradient)>,
    /// The learning rate at the time of the policy's decision.
    pub(super) rate: f32,
    pub(super) wait: Wait,
    /// Workers that the policy has released since then, each with the worker that caused the release. They
    /// will get parameters that contain this update.
    pub(super) released: Vec<(Worker, Worker)>,
    /// The time at which the update is overdue; [`Pending::overdue`] sets it.
    pub(super) until: Option<Instant>,
}

impl Update {
    fn part(&mut self, worker: Worker) -> Option<&mut PendingGradient> {
        self.parts.iter_mut().find(|(part, _)| part.worker == worker).map(|(_, held)| held)
    }

    /// Returns the workers whose gradients have not arrived.
    fn missing(&self) -> impl Iterator<Item = Worker> + '_ {
        self.parts.iter().filter(|(_, held)| held.values.is_none()).map(|(part, _)| part.worker)
    }

    fn is_complete(&self) -> bool {
        self.wait == Wait::Pushes && self.missing().next().is_none()
    }
}

/// A sum or gradient that did not arrive in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A sum of the reduction with this number.
    Sum(u64),
    /// The gradient that this worker had announced.
    Push(Worker),
}

/// The waiting updates, in the order in which the policy decided on them. A worker's gradient is in at
/// most one of them, because the worker computes its next gradient only after the update.
#[derive(Debug, Default)]
pub(super) struct Pending {
    updates: Vec<Update>,
}

impl Pending {
    pub(super) fn add(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// Delays a worker's release until the update that contains its gradient.
    ///
    /// Returns false if no such update exists.
    pub(super) fn put_off(&mut self, worker: Worker, cause: Worker) -> bool {
        let its = self.updates.iter_mut().find_map(|update| {
            update.part(worker)?;
            Some(update)
        });
        its.map(|update| update.released.push((worker, cause))).is_some()
    }

    /// Stores the values of a gradient that was requested, and ignores any other gradient.
    pub(super) fn fill(&mut self, worker: Worker, values: Vec<f32>) {
        let asking = self.updates.iter_mut().filter(|update| update.wait == Wait::Pushes);
        let held = asking.filter_map(|update| update.part(worker)).next();
        if let Some(held) = held.filter(|held| held.values.is_none()) {
            held.values = Some(values);
        }
    }

    /// Removes and returns the update that waited for this sum.
    pub(super) fn take_sum(&mut self, group: u64, round: u64) -> Option<Update> {
        let wait = Wait::Sum { group, round };
        let index = self.updates.iter().position(|update| update.wait == wait)?;
        Some(self.updates.remove(index))
    }

    /// Removes and returns the updates that are complete.
    pub(super) fn take_complete(&mut self) -> Vec<Update> {
        self.updates.extract_if(.., |update| update.is_complete()).collect()
    }

    /// Makes updates wait for single gradients, because the reduction will deliver no more sums. Returns
    /// the number of updates that waited for a sum, and the workers that must push their gradients instead.
    pub(super) fn fall_back(&mut self, group: u64) -> (u64, Vec<Worker>) {
        let (mut rounds, mut workers) = (0, Vec::new());
        for update in &mut self.updates {
            if matches!(update.wait, Wait::Sum { group: its, .. } if its == group) {
                (update.wait, update.until) = (Wait::Pushes, None);
                rounds += 1;
                workers.extend(update.missing());
            }
        }
        (rounds, workers)
    }

    /// Removes a worker's gradient from the updates, because the worker has left. If the worker comes back,
    /// the server requests the gradient again. Must not be called while a sum may still contain the
    /// gradient.
    pub(super) fn leave(&mut self, worker: Worker) {
        for update in &mut self.updates {
            update.parts.retain(|(part, _)| part.worker != worker);
            update.released.retain(|(released, _)| *released != worker);
        }
    }

    /// Returns the sums and gradients that are overdue, and restarts their time limits. The limit is
    /// `patience` after the first call that sees the update.
    pub(super) fn overdue(&mut self, now: Instant, patience: Duration) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        for update in &mut self.updates {
            if *update.until.get_or_insert(now + patience) > now {
                continue;
            }
            update.until = Some(now + patience);
            match update.wait {
                Wait::Sum { group, .. } => overdue.push(Overdue::Sum(group)),
                Wait::Pushes => overdue.extend(update.missing().map(Overdue::Push)),
            }
        }
        overdue
    }

    /// Returns the time of the next call of [`overdue`](Self::overdue).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.updates.iter().filter_map(|update| update.until).min()
    }
}
