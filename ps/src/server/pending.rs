//! Updates that the policy has decided on and whose gradients are not all at the server yet. Without I/O; of
//! the clock it is only told.

use std::time::{Duration, Instant};

use crate::policy::{Part, Worker};

/// A gradient that the policy has not used yet, or an update that waits.
#[derive(Debug)]
pub(super) struct Held {
    /// None: its worker keeps it.
    pub(super) values: Option<Vec<f32>>,
    /// Updates that were in the parameters which it was computed from.
    pub(super) pulled: u64,
}

/// What an update still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The sum of those gradients that workers keep.
    Sum { group: u64, round: u64 },
    /// These gradients themselves.
    Pushes,
}

/// One update.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) parts: Vec<(Part, Held)>,
    /// The learning rate as it was when the policy decided.
    pub(super) rate: f32,
    pub(super) wait: Wait,
    /// Whom the policy has released since, and who caused it: they get the parameters that contain this.
    pub(super) released: Vec<(Worker, Worker)>,
    /// Set by the next [`Pending::overdue`].
    pub(super) until: Option<Instant>,
}

impl Update {
    fn part(&mut self, worker: Worker) -> Option<&mut Held> {
        self.parts.iter_mut().find(|(part, _)| part.worker == worker).map(|(_, held)| held)
    }

    /// Those whose gradients are not here.
    fn missing(&self) -> impl Iterator<Item = Worker> + '_ {
        self.parts.iter().filter(|(_, held)| held.values.is_none()).map(|(part, _)| part.worker)
    }

    fn is_complete(&self) -> bool {
        self.wait == Wait::Pushes && self.missing().next().is_none()
    }
}

/// What did not come in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// A sum of this reduction.
    Sum(u64),
    /// This worker's gradient, which it had announced.
    Push(Worker),
}

/// The updates that wait, in the order in which the policy decided on them. A worker's gradient is in one of
/// them at most, since it computes the next one only after that.
#[derive(Debug, Default)]
pub(super) struct Pending {
    updates: Vec<Update>,
}

impl Pending {
    pub(super) fn add(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// Puts off a worker's release until the update that its gradient is in. False: there is none.
    pub(super) fn put_off(&mut self, worker: Worker, cause: Worker) -> bool {
        let its = self.updates.iter_mut().find_map(|update| {
            update.part(worker)?;
            Some(update)
        });
        its.map(|update| update.released.push((worker, cause))).is_some()
    }

    /// A gradient has come that was asked for. Unasked for, it is not needed.
    pub(super) fn fill(&mut self, worker: Worker, values: Vec<f32>) {
        let asking = self.updates.iter_mut().filter(|update| update.wait == Wait::Pushes);
        let held = asking.filter_map(|update| update.part(worker)).next();
        if let Some(held) = held.filter(|held| held.values.is_none()) {
            held.values = Some(values);
        }
    }

    /// The update that waited for this sum.
    pub(super) fn take_sum(&mut self, group: u64, round: u64) -> Option<Update> {
        let wait = Wait::Sum { group, round };
        let index = self.updates.iter().position(|update| update.wait == wait)?;
        Some(self.updates.remove(index))
    }

    /// The updates that nothing is missing of.
    pub(super) fn take_complete(&mut self) -> Vec<Update> {
        self.updates.extract_if(.., |update| update.is_complete()).collect()
    }

    /// No sum of this reduction will come: how many updates waited for one, and who has to push instead.
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

    /// A worker has gone: what it had a part in goes on without, since it will be asked for the gradient again
    /// when it comes back. Not to be called while a sum may still contain it.
    pub(super) fn leave(&mut self, worker: Worker) {
        for update in &mut self.updates {
            update.parts.retain(|(part, _)| part.worker != worker);
            update.released.retain(|(released, _)| *released != worker);
        }
    }

    /// What has not come in time, each once; `patience` begins when an update is first seen here.
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

    /// When to look for what is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.updates.iter().filter_map(|update| update.until).min()
    }
}
