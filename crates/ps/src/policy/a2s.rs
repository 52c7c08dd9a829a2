//! Adaptive: asynchronous, except that a group of the fastest workers waits for each other for a
//! limited time (A2S; Int. J. Intell. Syst. 37(12), 2022).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Policy, Progress, WeightedGradient, Worker, apply_alone};

/// The measure by which workers are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All epochs that the workers have finished, as in the publication.
    Total,
    /// The epochs that the workers have finished since the last ranking.
    Recent,
}

/// The adaptive policy: asynchronous, with a synchronous group of the fastest workers.
///
/// The policy ranks the workers whenever every worker has finished another epoch since the last
/// ranking. It then dissolves the synchronous group and forms a new one of the s fastest workers. Here
/// s is the number of epochs that the fastest worker is ahead of the slowest. If s is 0 or 1, the
/// policy forms no group.
///
/// The publication states two rules: rank when every worker has finished another epoch and the group is
/// empty, and dissolve the group when all workers have finished another epoch. After the second rule
/// the group is empty, so both rules apply at the same moment. The workers stay asynchronous only if
/// the policy forms no group.
///
/// As long as the workers' speeds differ, the lead of the fastest worker grows. In the end the group
/// contains all workers except the slowest, which wait for each other as under BSP. Therefore the lead
/// may also be counted [since the last ranking](Spread::Recent): then the group stays the same as long
/// as the speeds do.
///
/// The group's gradients wait in a list. They become one update when all of them have arrived, or when
/// more gradients than the slack have arrived from any workers meanwhile: a relaxed barrier. The weight
/// of a gradient in the update is the number of its worker's iterations.
#[derive(Debug)]
pub struct A2s {
    progress: Progress,
    slack: u64,
    spread: Spread,
    /// The number of iterations of each worker at the last ranking.
    marks: BTreeMap<Worker, u64>,
    /// The synchronous group.
    sync: BTreeSet<Worker>,
    /// Members of the group whose gradients wait, in order of arrival.
    list: Vec<Worker>,
    /// The number of gradients that have arrived since the first one in the list.
    clock: u64,
}

impl A2s {
    /// The default slack: the number of gradients that may arrive while others wait.
    pub const DEFAULT_SLACK: u64 = 5;

    /// Creates a policy without workers.
    pub fn new(epoch_iterations: NonZeroU64, slack: u64, spread: Spread) -> Self {
        Self {
            progress: Progress::new(epoch_iterations),
            slack,
            spread,
            marks: BTreeMap::new(),
            sync: BTreeSet::new(),
            list: Vec::new(),
            clock: 0,
        }
    }

    /// Applies the gradients in the list, and releases their workers.
    fn flush(&mut self, actions: &mut Vec<Action>) {
        self.clock = 0;
        if self.list.is_empty() {
            return;
        }
        let list = std::mem::take(&mut self.list);
        let part = |&worker: &Worker| WeightedGradient { worker, weight: self.progress.iterations(worker) };
        actions.push(Action::Apply(list.iter().map(part).collect()));
        actions.extend(list.into_iter().map(Action::Release));
    }

    /// Returns the number of iterations by which a worker is ranked.
    fn iterations(&self, worker: Worker) -> u64 {
        let all = self.progress.iterations(worker);
        match self.spread {
            Spread::Total => all,
            Spread::Recent => all - self.marks.get(&worker).copied().unwrap_or(all),
        }
    }

    /// Returns true if the list need not wait for further gradients.
    fn due(&self) -> bool {
        self.list.len() == self.sync.len() || self.clock > self.slack
    }

    /// Dissolves the group and ranks the workers again if every worker has finished another epoch.
    fn look(&mut self, actions: &mut Vec<Action>) {
        let progress = &self.progress;
        let waits = |(&worker, &mark): (&Worker, &u64)| progress.epoch(worker) <= progress.epochs_of(mark);
        if self.marks.is_empty() || self.marks.iter().any(waits) {
            return;
        }
        self.flush(actions);
        self.sync.clear();
        self.form();
        for (&worker, mark) in &mut self.marks {
            *mark = self.progress.iterations(worker);
        }
    }

    /// Forms the group if the fastest worker is more than one epoch ahead of the slowest. Workers are
    /// sorted by iterations, and by their numbers only if the iterations are equal.
    fn form(&mut self) {
        let mut ranked: Vec<Worker> = self.progress.workers().collect();
        ranked.sort_by_key(|&worker| (Reverse(self.iterations(worker)), worker));
        let (Some(&fastest), Some(&slowest)) = (ranked.first(), ranked.last()) else { return };
        let epochs = |worker| self.progress.epochs_of(self.iterations(worker));
        let spread = epochs(fastest) - epochs(slowest);
        if spread > 1 {
            let size = usize::try_from(spread).unwrap_or(usize::MAX).min(ranked.len() - 1);
            self.sync.extend(&ranked[..size]);
        }
    }
}

impl Policy for A2s {
    fn name(&self) -> &'static str {
        match self.spread {
            Spread::Total => "a2s",
            Spread::Recent => "a2s-recent",
        }
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.progress.join(worker, iterations);
        self.marks.insert(worker, self.progress.iterations(worker));
        vec![Action::Release(worker)]
    }

    fn arrive(&mut self, worker: Worker, _now: Instant) -> Vec<Action> {
        if !self.progress.count(worker) {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if !self.list.is_empty() {
            self.clock += 1;
        }
        if self.sync.contains(&worker) {
            self.list.push(worker);
        } else {
            actions.extend([apply_alone(worker), Action::Release(worker)]);
        }
        if self.due() {
            self.flush(&mut actions);
        }
        self.look(&mut actions);
        actions
    }

    /// Removes a worker. If its gradient is in the list, the policy applies the list first.
    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        let mut actions = Vec::new();
        self.flush(&mut actions);
        self.progress.leave(worker);
        self.sync.remove(&worker);
        self.marks.remove(&worker);
        self.look(&mut actions);
        actions.retain(|action| *action != Action::Release(worker));
        actions
    }

    fn urge(&mut self, worker: Worker) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.list.contains(&worker) {
            self.flush(&mut actions);
        }
        actions
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn group(&self) -> BTreeSet<Worker> {
        self.sync.clone()
    }
}
