//! Adaptive: asynchronous, except for a group of the fastest workers, who wait a little for each other
//! (A2S; Int. J. Intell. Syst. 37(12), 2022).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Policy, Progress, WeightedGradient, Worker, apply_alone};

/// The measure by which workers are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The epochs that they have finished, as published.
    Total,
    /// The epochs that they have finished since the last ranking.
    Recent,
}

/// Whenever every worker has finished another epoch since the last ranking, the synchronous group is
/// dissolved and a new one formed: the s fastest workers, where s is the number of epochs that the fastest is ahead of
/// the slowest, if that is more than one. Both happen at once, which follows from the restatement: it ranks whenever
/// every worker has finished at least one more epoch and the group is empty; it dissolves the group when all workers
/// have finished another epoch; the group is empty then, so both conditions hold. The asynchronous state in between
/// lasts only if no group is formed.
///
/// As long as workers' speeds differ, the lead of the fastest grows, until the group has everyone but the slowest,
/// waiting for each other as under BSP. Therefore the lead may also be counted [since the last
/// ranking](Spread::Recent): as long as speeds stay the same, so does the group.
///
/// The group's gradients wait in a list until all of them have come, or until more gradients than the slack have
/// arrived meanwhile, from any worker: a relaxed barrier. Then they become one update, in which a gradient's weight is
/// the number of its worker's iterations.
#[derive(Debug)]
pub struct A2s {
    progress: Progress,
    slack: u64,
    spread: Spread,
    /// All workers' iterations at the last ranking.
    marks: BTreeMap<Worker, u64>,
    /// The synchronous group.
    sync: BTreeSet<Worker>,
    /// Members of the group whose gradients wait, in order of arrival.
    list: Vec<Worker>,
    /// The number of gradients that have arrived since the first one in the list.
    clock: u64,
}

impl A2s {
    /// The default number of gradients that may arrive while others wait.
    pub const DEFAULT_SLACK: u64 = 5;

    /// A policy without workers.
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

    /// Applies the waiting gradients, and releases their workers.
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

    /// The iterations that a worker is ranked by.
    fn iterations(&self, worker: Worker) -> u64 {
        let all = self.progress.iterations(worker);
        match self.spread {
            Spread::Total => all,
            Spread::Recent => all - self.marks.get(&worker).copied().unwrap_or(all),
        }
    }

    /// Returns true if the list need not wait any longer.
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

    /// Forms the group if the fastest is more than one epoch ahead.
    /// Equal epochs are ranked by iterations, so that the workers' numbers matter only if nothing else distinguishes
    /// them.
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

    /// If the worker's gradient waits, it is used with the others.
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
