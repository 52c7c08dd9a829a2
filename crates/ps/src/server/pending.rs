//! Updates that the policy has decided on, but whose gradients are not all at the server yet.
//! Without I/O; the time comes as an argument.

use std::time::{Duration, Instant};

use crate::policy::{WeightedGradient, Worker};

/// A gradient that the policy has not used yet, or that is part of a waiting update.
#[derive(Debug)]
pub(super) struct PendingGradient {
    /// The values; `None`: the worker keeps them.
    pub(super) values: Option<Vec<f32>>,
    /// The number of updates in the parameters from which it was computed.
    pub(super) pulled: u64,
}

/// Event for which an update waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The sum of the gradients that workers keep.
    Sum { group: u64, round: u64 },
    /// The single gradients.
    Pushes,
}

/// An update.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) parts: Vec<(WeightedGradient, PendingGradient)>,
    /// The learning rate at the time of the policy's decision.
    pub(super) rate: f32,
    pub(super) wait: Wait,
    /// Workers that the policy has released since, each with the worker that caused it: they get parameters
    /// that contain this update.
    pub(super) released: Vec<(Worker, Worker)>,
    /// The deadline; set by the next [`Pending::overdue`].
    pub(super) until: Option<Instant>,
}

impl Update {
    fn part(&mut self, worker: Worker) -> Option<&mut PendingGradient> {
        self.parts.iter_mut().find(|(part, _)| part.worker == worker).map(|(_, held)| held)
    }

    /// The workers whose gradients are not here.
    fn missing(&self) -> impl Iterator<Item = Worker> + '_ {
        self.parts.iter().filter(|(_, held)| held.values.is_none()).map(|(part, _)| part.worker)
    }

    fn is_complete(&self) -> bool {
        self.wait == Wait::Pushes && self.missing().next().is_none()
    }
}

/// Something that did not come in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A sum of this reduction.
    Sum(u64),
    /// The gradient that this worker had announced.
    Push(Worker),
}

/// The waiting updates, in the order in which the policy decided on them.
/// A worker's gradient is in at most one of them, since it computes the next one only after that.
#[derive(Debug, Default)]
pub(super) struct Pending {
    updates: Vec<Update>,
}

impl Pending {
    pub(super) fn add(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// Delays a worker's release until the update with its gradient.
    ///
    /// Returns false if no such update exists.
    pub(super) fn put_off(&mut self, worker: Worker, cause: Worker) -> bool {
        let its = self.updates.iter_mut().find_map(|update| {
            update.part(worker)?;
            Some(update)
        });
        its.map(|update| update.released.push((worker, cause))).is_some()
    }

    /// Takes a gradient that was requested. A gradient that was not requested is not needed.
    pub(super) fn fill(&mut self, worker: Worker, values: Vec<f32>) {
        let asking = self.updates.iter_mut().filter(|update| update.wait == Wait::Pushes);
        let held = asking.filter_map(|update| update.part(worker)).next();
        if let Some(held) = held.filter(|held| held.values.is_none()) {
            held.values = Some(values);
        }
    }

    /// Takes the update that waited for this sum.
    pub(super) fn take_sum(&mut self, group: u64, round: u64) -> Option<Update> {
        let wait = Wait::Sum { group, round };
        let index = self.updates.iter().position(|update| update.wait == wait)?;
        Some(self.updates.remove(index))
    }

    /// Takes the updates that are complete.
    pub(super) fn take_complete(&mut self) -> Vec<Update> {
        self.updates.extract_if(.., |update| update.is_complete()).collect()
    }

    /// No sum of this reduction will come.
    /// Returns how many updates waited for one, and the workers that have to push instead.
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

    /// A worker has left: updates continue without its gradient, which it will be asked for again when it
    /// comes back. Not to be called while a sum may still contain the gradient.
    pub(super) fn leave(&mut self, worker: Worker) {
        for update in &mut self.updates {
            update.parts.retain(|(part, _)| part.worker != worker);
            update.released.retain(|(released, _)| *released != worker);
        }
    }

    /// Everything that has not come in time, each once; `patience` begins when an
    /// update is first seen here.
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

    /// The next time to look for overdue things.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.updates.iter().filter_map(|update| update.until).min()
    }
}
