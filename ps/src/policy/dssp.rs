//! Dynamic stale-synchronous: the bound follows the workers' speeds (DSSP; Zhao et al., "Dynamic Stale Synchronous
//! Parallel Distributed Training for Deep Learning", ICDCS 2019).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::{Action, Policy, Progress, Worker, apply_alone};

/// Every gradient is an update of its own. A worker may be `bound` iterations ahead of the slowest, as under SSP; the
/// fastest one gets *credit* beyond that: as many iterations as will make it wait least, by how long its last iteration
/// and the slowest's took. Nobody gets further ahead than `most` all the same, which the publication's pseudo-code
/// leaves open where credit is used up and given again.
#[derive(Debug)]
pub struct Dssp {
    progress: Progress,
    bound: u64,
    most: u64,
    /// When each worker's last gradient came, and how long it was since the one before.
    last: BTreeMap<Worker, (Instant, Option<Duration>)>,
    /// Iterations that a worker may still do beyond the bound.
    credit: BTreeMap<Worker, u64>,
    /// Who is too far ahead.
    held: BTreeSet<Worker>,
}

impl Dssp {
    /// How far ahead a worker may be at most, unless told otherwise; with SSP's default at least.
    pub const DEFAULT_MOST: u64 = 15;

    /// Nobody takes part yet.
    pub fn new(epoch_iterations: NonZeroU64, bound: u64, most: u64) -> Self {
        Self {
            progress: Progress::new(epoch_iterations),
            bound,
            most: most.max(bound),
            last: BTreeMap::new(),
            credit: BTreeMap::new(),
            held: BTreeSet::new(),
        }
    }

    fn ahead(&self, worker: Worker) -> u64 {
        self.progress.iterations(worker) - self.progress.slowest().unwrap_or(0)
    }

    /// Releases everyone that the slowest has come close enough to.
    fn look(&mut self) -> Vec<Action> {
        let limit = self.progress.slowest().unwrap_or(0).saturating_add(self.bound);
        let progress = &self.progress;
        let released: Vec<_> =
            self.held.extract_if(.., |&worker| progress.iterations(worker) <= limit).collect();
        for worker in &released {
            self.credit.remove(worker);
        }
        released.into_iter().map(Action::Release).collect()
    }

    /// Whether a worker beyond the bound may do another iteration.
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
        let own = self.progress.iterations(worker);
        self.progress.workers().all(|other| self.progress.iterations(other) <= own)
    }

    /// After how many more iterations a worker's gradient will be closest to one of the slowest's.
    fn grant(&self, worker: Worker) -> u64 {
        let slowest = self.progress.workers().min_by_key(|&other| self.progress.iterations(other));
        let known = |worker| self.last.get(&worker).and_then(|&(at, took)| Some((at, took?)));
        let (Some((at, took)), Some((slow_at, slow_took))) = (known(worker), slowest.and_then(known)) else {
            return 0;
        };
        let slow_took = slow_took.as_secs_f64().max(f64::MIN_POSITIVE);
        let wait = |more: u64| {
            let own = (at + took.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX)))
                .saturating_duration_since(slow_at)
                .as_secs_f64();
            // The slowest's gradients that are still to come begin with the next one.
            let nearest = (own / slow_took).round().max(1.0) * slow_took;
            (nearest - own).abs()
        };
        (0..=self.most - self.bound).min_by(|&a, &b| wait(a).total_cmp(&wait(b))).unwrap_or(0)
    }
}

impl Policy for Dssp {
    fn name(&self) -> &'static str {
        "dssp"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.progress.join(worker, iterations);
        self.held.insert(worker);
        self.look()
    }

    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action> {
        if !self.progress.count(worker) {
            return Vec::new();
        }
        let since = self.last.get(&worker).map(|&(before, _)| now.saturating_duration_since(before));
        self.last.insert(worker, (now, since));
        let mut actions = vec![apply_alone(worker)];
        if self.ahead(worker) > self.bound && self.spend(worker) {
            actions.push(Action::Release(worker));
        } else {
            self.held.insert(worker);
        }
        actions.extend(self.look());
        actions
    }

    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.progress.leave(worker);
        self.last.remove(&worker);
        self.credit.remove(&worker);
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
