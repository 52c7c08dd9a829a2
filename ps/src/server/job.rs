//! A job's parameters, and what becomes of the gradients: without I/O, threads and clock.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use tributary_api::ps::Step;

use super::checkpoint::Snapshot;
use super::spec::JobSpec;
use super::stats::JobStats;
use crate::optimizer::{Optimizer, OptimizerError};
use crate::policy::{Action, Part, Policy, Worker};
use crate::values;

/// Why a worker's message cannot be used. It concerns that worker alone.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("this server holds {length} parameters from number {first} on; the worker means {got:?}")]
    Range { first: u64, length: u64, got: (u64, u64) },
    #[error("a gradient of iteration {got} where {expected} is the next one")]
    Iteration { expected: u64, got: u64 },
    #[error("a gradient of {got} values where there are {expected} parameters")]
    Length { expected: usize, got: usize },
}

/// A gradient that the policy has not used yet.
struct Held {
    gradient: Vec<f32>,
    /// Updates that were in the parameters which it was computed from.
    pulled: u64,
}

/// Parameters in training.
pub(super) struct Job {
    spec: JobSpec,
    /// Where in the model this range begins.
    first: u64,
    parameters: Vec<f32>,
    optimizer: Box<dyn Optimizer>,
    policy: Box<dyn Policy>,
    /// How many gradients of each worker the parameters contain.
    used: BTreeMap<Worker, u64>,
    held: BTreeMap<Worker, Held>,
    /// Who has parameters and no gradient here.
    computing: BTreeSet<Worker>,
    /// Who is there before the start; none after it.
    gathering: Option<BTreeSet<Worker>>,
    updates: u64,
    /// Sum of gradients that are aggregated.
    sum: Vec<f32>,
}

/// Steps to send, in their order.
pub(super) type Steps = Vec<(Worker, Step)>;

/// One worker's gradient.
pub(super) struct Gradient {
    pub(super) iteration: u64,
    /// Updates that were in the parameters which it was computed from.
    pub(super) pulled: u64,
    pub(super) values: Vec<f32>,
}

impl Job {
    /// A job as its first worker starts it.
    pub(super) fn new(spec: JobSpec, first: u64, initial: Vec<f32>) -> Result<Self, OptimizerError> {
        let optimizer = spec.optimizer.build(initial.len(), None)?.state();
        let (job, used) = (spec.name.clone(), BTreeMap::new());
        Self::restore(spec, Snapshot { job, first, parameters: initial, optimizer, used, updates: 0 })
    }

    /// A job as a checkpoint has it. Groups of the policy form anew.
    pub(super) fn restore(spec: JobSpec, snapshot: Snapshot) -> Result<Self, OptimizerError> {
        let Snapshot { first, parameters, optimizer, used, updates, .. } = snapshot;
        Ok(Self {
            policy: spec.policy(),
            optimizer: spec.optimizer.build(parameters.len(), Some(optimizer))?,
            spec,
            first,
            sum: vec![0.0; parameters.len()],
            parameters,
            used,
            held: BTreeMap::new(),
            computing: BTreeSet::new(),
            gathering: Some(BTreeSet::new()),
            updates,
        })
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            job: self.spec.name.clone(),
            first: self.first,
            parameters: self.parameters.clone(),
            optimizer: self.optimizer.state(),
            used: self.used.clone(),
            updates: self.updates,
        }
    }

    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    pub(super) fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Whether training waits for workers.
    pub(super) fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    /// Whether this is the range that the worker means.
    pub(super) fn check_range(&self, first: u64, length: u64) -> Result<(), Refusal> {
        let own = (self.first, self.parameters.len() as u64);
        if (first, length) == own {
            return Ok(());
        }
        Err(Refusal::Range { first: own.0, length: own.1, got: (first, length) })
    }

    /// A worker has come, who is not there.
    pub(super) fn join(&mut self, worker: Worker, stats: &mut JobStats) -> Steps {
        let Some(gathered) = &mut self.gathering else {
            let used = self.used(worker);
            let actions = self.policy.join(worker, used);
            return self.settle(actions, worker, stats);
        };
        gathered.insert(worker);
        if gathered.len() < usize::from(self.spec.workers.get()) {
            return Steps::new();
        }
        self.start(stats)
    }

    /// Training starts with those who are there.
    pub(super) fn start(&mut self, stats: &mut JobStats) -> Steps {
        let gathered = self.gathering.take().unwrap_or_default();
        gathered.into_iter().flat_map(|worker| self.join(worker, stats)).collect()
    }

    /// A gradient has come. One that is here already, or was used before, changes nothing.
    pub(super) fn push(
        &mut self,
        worker: Worker,
        gradient: Gradient,
        stats: &mut JobStats,
    ) -> Result<Steps, Refusal> {
        let Gradient { iteration, pulled, values: gradient } = gradient;
        let expected = self.used(worker);
        if gradient.len() != self.parameters.len() {
            return Err(Refusal::Length { expected: self.parameters.len(), got: gradient.len() });
        }
        if iteration > expected {
            return Err(Refusal::Iteration { expected, got: iteration });
        }
        if !self.computing.contains(&worker) {
            return Ok(Steps::new());
        }
        if iteration < expected {
            return Ok(vec![(worker, self.step(worker, worker))]);
        }
        self.computing.remove(&worker);
        self.held.insert(worker, Held { gradient, pulled });
        let actions = self.policy.arrive(worker);
        Ok(self.settle(actions, worker, stats))
    }

    /// A worker has gone. Its gradient is used now or, if it comes back, asked for again.
    pub(super) fn leave(&mut self, worker: Worker, stats: &mut JobStats) -> Steps {
        if let Some(gathered) = &mut self.gathering {
            gathered.remove(&worker);
            return Steps::new();
        }
        self.computing.remove(&worker);
        let actions = self.policy.leave(worker);
        let steps = self.settle(actions, worker, stats);
        self.held.remove(&worker);
        steps
    }

    /// Another server of the job has released this worker.
    pub(super) fn urge(&mut self, worker: Worker, stats: &mut JobStats) -> Steps {
        let actions = self.policy.urge(worker);
        self.settle(actions, worker, stats)
    }

    fn used(&self, worker: Worker) -> u64 {
        self.used.get(&worker).copied().unwrap_or(0)
    }

    /// Does what the policy says, after something that `cause` did.
    fn settle(&mut self, actions: Vec<Action>, cause: Worker, stats: &mut JobStats) -> Steps {
        let mut steps = Steps::new();
        for action in actions {
            match action {
                Action::Apply(parts) => self.apply(&parts, stats),
                Action::Release(worker) => {
                    self.computing.insert(worker);
                    steps.push((worker, self.step(worker, cause)));
                }
            }
        }
        stats.group = self.policy.group();
        stats.updates = self.updates;
        stats.epoch = self.policy.progress().slowest_epoch();
        steps
    }

    /// One update, by the weighted mean of gradients.
    fn apply(&mut self, parts: &[Part], stats: &mut JobStats) {
        let taken: Vec<(Part, Held)> =
            parts.iter().filter_map(|part| Some((*part, self.held.remove(&part.worker)?))).collect();
        let total: f64 = taken.iter().map(|(part, _)| part.weight as f64).sum();
        let rate = self.spec.rate(self.policy.progress().slowest_epoch());
        if let [(_, held)] = &taken[..] {
            self.optimizer.update(&mut self.parameters, &held.gradient, rate);
        } else {
            self.sum.fill(0.0);
            for (part, held) in &taken {
                let share = (part.weight as f64 / total) as f32;
                self.sum.iter_mut().zip(&held.gradient).for_each(|(sum, value)| *sum += share * value);
            }
            self.optimizer.update(&mut self.parameters, &self.sum, rate);
        }
        for (part, held) in taken {
            *self.used.entry(part.worker).or_default() += 1;
            // After the server went back to a checkpoint, workers may have seen more updates than it has.
            stats.used(part.worker, self.updates.saturating_sub(held.pulled));
        }
        self.updates += 1;
    }

    fn step(&self, worker: Worker, released_by: Worker) -> Step {
        Step {
            iteration: self.used(worker),
            updates: self.updates,
            parameters: values::encode(&self.parameters),
            released_by: released_by.into(),
            in_group: self.policy.group().contains(&worker),
            group: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU16, NonZeroU64};

    use super::*;
    use crate::server::spec::PolicyKind;

    fn job(policy: PolicyKind, workers: u16) -> (Job, JobStats) {
        let (workers, epoch) = (NonZeroU16::new(workers).unwrap(), NonZeroU64::new(10).unwrap());
        let spec = JobSpec { decay: 1.0, ..JobSpec::new("test", workers, policy, epoch, 1.0) };
        (Job::new(spec, 0, vec![0.0; 2]).unwrap(), JobStats::default())
    }

    fn workers(steps: &Steps) -> Vec<Worker> {
        steps.iter().map(|(worker, _)| *worker).collect()
    }

    fn gradient(iteration: u64, values: [f32; 2]) -> Gradient {
        Gradient { iteration, pulled: 0, values: values.to_vec() }
    }

    #[test]
    fn training_starts_when_all_are_there_or_without_the_missing() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 3);
        assert!(job.join(2, &mut stats).is_empty() && job.join(0, &mut stats).is_empty());
        assert_eq!(workers(&job.start(&mut stats)), [0, 2]);
        assert_eq!(workers(&job.join(1, &mut stats)), [1]);
    }

    #[test]
    fn a_round_is_one_update_by_the_mean() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, &mut stats);
        assert_eq!(workers(&job.join(1, &mut stats)), [0, 1]);
        assert!(job.push(1, gradient(0, [1.0, 3.0]), &mut stats).unwrap().is_empty());
        let steps = job.push(0, gradient(0, [3.0, 1.0]), &mut stats).unwrap();
        assert_eq!(workers(&steps), [0, 1]);
        assert_eq!((job.parameters(), job.updates()), (&[-2.0, -2.0][..], 1));
        assert_eq!((steps[1].1.iteration, steps[1].1.released_by), (1, 0));
    }

    #[test]
    fn a_gradient_that_comes_again_changes_nothing() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, &mut stats);
        job.join(1, &mut stats);
        for _ in 0..3 {
            assert!(job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap().is_empty());
        }
        job.push(1, gradient(0, [1.0; 2]), &mut stats).unwrap();
        let again = job.push(1, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert_eq!((workers(&again), again[0].1.iteration), (vec![1], 1));
        assert_eq!((job.parameters()[0], job.updates()), (-1.0, 1));
        let ahead = job.push(1, gradient(5, [1.0; 2]), &mut stats);
        assert_eq!(ahead, Err(Refusal::Iteration { expected: 1, got: 5 }));
    }

    #[test]
    fn what_a_worker_leaves_behind_is_asked_for_again_or_used() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, &mut stats);
        job.join(1, &mut stats);
        job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert!(job.leave(0, &mut stats).is_empty());
        assert_eq!(job.join(0, &mut stats)[0].1.iteration, 0, "its gradient was not used");
        job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert_eq!(workers(&job.leave(1, &mut stats)), [0]);
        assert_eq!(job.updates(), 1);
    }

    #[test]
    fn a_restored_job_goes_on_where_the_snapshot_was() {
        let (mut job, mut stats) = job(PolicyKind::Asp, 1);
        job.join(0, &mut stats);
        job.push(0, gradient(0, [1.0, 2.0]), &mut stats).unwrap();
        let mut restored = Job::restore(job.spec.clone(), job.snapshot()).unwrap();
        let steps = restored.join(0, &mut JobStats::default());
        assert_eq!((steps[0].1.iteration, steps[0].1.updates), (1, 1));
        assert_eq!(restored.parameters(), [-1.0, -2.0]);
        assert!(restored.check_range(0, 2).is_ok() && restored.check_range(1, 2).is_err());
    }
}
