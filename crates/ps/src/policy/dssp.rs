//! Dynamic stale-synchronous: the bound follows the workers' speeds (DSSP; Zhao et al., "Dynamic Stale
//! Synchronous Parallel Distributed Training for Deep Learning", ICDCS 2019).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::{Action, Policy, Progress, Ssp, Worker, apply_alone};

/// Every gradient is a separate update.
///
/// A worker may be `bound` iterations ahead of the slowest worker, as under SSP. The fastest worker
/// gets *credit* for further iterations: the number of iterations after which its wait will be
/// shortest. The estimate uses the times of the last iterations of the fastest and of the slowest
/// worker. No worker gets further ahead than `most`; the publication's pseudo-code does not limit a
/// worker that has used up its credit and gets more.
#[derive(Debug)]
pub struct Dssp {
    /// The state of SSP: decides which workers may continue without credit, and which are too far ahead.
    ssp: Ssp,
    most: u64,
    /// For each worker, the time of its last gradient, and the interval before that gradient if it is
    /// known.
    last: BTreeMap<Worker, (Instant, Option<Duration>)>,
    /// The number of iterations that each worker may still do beyond the bound.
    credit: BTreeMap<Worker, u64>,
}

impl Dssp {
    /// The default for the most iterations that a worker may be ahead; not below SSP's default.
    pub const DEFAULT_MOST: u64 = 15;

    /// Creates a policy without workers. `most` is raised to `bound` if it is lower.
    pub fn new(epoch_iterations: NonZeroU64, bound: u64, most: u64) -> Self {
        Self {
            ssp: Ssp::new(epoch_iterations, bound),
            most: most.max(bound),
            last: BTreeMap::new(),
            credit: BTreeMap::new(),
        }
    }

    fn ahead(&self, worker: Worker) -> u64 {
        self.progress().iterations(worker) - self.progress().slowest().unwrap_or(0)
    }

    /// Removes the credit of workers that SSP releases, because they do not need it any more.
    fn without_credit(&mut self, actions: Vec<Action>) -> Vec<Action> {
        for action in &actions {
            if let Action::Release(worker) = action {
                self.credit.remove(worker);
            }
        }
        actions
    }

    /// Returns true if a worker beyond the bound may do another iteration, which uses one of its credit.
    fn spend(&mut self, worker: Worker) -> bool {
        let left = self.most.saturating_sub(self.ahead(worker));
        if left == 0 {
            return false;
        }
        let credit = match self.credit.get(&worker) {
            Some(&credit) if credit > 0 => credit,
            _ if self.is_fastest(worker) => self.grant(worker).min(left),
            _ => 0,
        };
        self.credit.insert(worker, credit.saturating_sub(1));
        credit > 0
    }

    fn is_fastest(&self, worker: Worker) -> bool {
        let progress = self.progress();
        let own = progress.iterations(worker);
        progress.workers().all(|other| progress.iterations(other) <= own)
    }

    /// Returns the number of further iterations after which the worker's gradient will arrive closest to a
    /// gradient of the slowest worker.
    fn grant(&self, worker: Worker) -> u64 {
        let progress = self.progress();
        let slowest = progress.workers().min_by_key(|&other| progress.iterations(other));
        let known = |worker| self.last.get(&worker).and_then(|&(at, took)| Some((at, took?)));
        let (Some((at, took)), Some((slow_at, slow_took))) = (known(worker), slowest.and_then(known)) else {
            return 0;
        };
        let slow_took = slow_took.as_secs_f64().max(f64::MIN_POSITIVE);
        let wait = |more: u64| {
            let own = (at + took.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX)))
                .saturating_duration_since(slow_at)
                .as_secs_f64();
            // The slowest worker's next gradient is the first that can be met.
            let nearest = (own / slow_took).round().max(1.0) * slow_took;
            (nearest - own).abs()
        };
        (0..=self.most - self.ssp.bound).min_by(|&a, &b| wait(a).total_cmp(&wait(b))).unwrap_or(0)
    }
}

impl Policy for Dssp {
    fn name(&self) -> &'static str {
        "dssp"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        let actions = self.ssp.join(worker, iterations);
        self.without_credit(actions)
    }

    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action> {
        if !self.ssp.progress.count(worker) {
            return Vec::new();
        }
        let since = self.last.get(&worker).map(|&(before, _)| now.saturating_duration_since(before));
        self.last.insert(worker, (now, since));
        let mut actions = vec![apply_alone(worker)];
        if self.ahead(worker) > self.ssp.bound && self.spend(worker) {
            actions.push(Action::Release(worker));
        } else {
            self.ssp.held.insert(worker);
        }
        let released = self.ssp.look();
        actions.extend(self.without_credit(released));
        actions
    }

    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.last.remove(&worker);
        self.credit.remove(&worker);
        let actions = self.ssp.leave(worker);
        self.without_credit(actions)
    }

    fn progress(&self) -> &Progress {
        self.ssp.progress()
    }

    fn group(&self) -> BTreeSet<Worker> {
        self.ssp.group()
    }
}
