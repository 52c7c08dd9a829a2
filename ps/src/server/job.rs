//! A job's parameters, and what becomes of the gradients: without I/O and threads; of the clock it is only told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thiserror::Error;
use tributary_api::ps::server_message::Message;
use tributary_api::ps::{PushPlain, Step};

use super::checkpoint::Snapshot;
use super::fabric::{GroupEvent, Sum};
use super::group::Groups;
use super::pending::{Held, Overdue, Pending, Update, Wait};
use super::spec::JobSpec;
use super::stats::JobStats;
use super::weights;
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
    /// Where gradients are aggregated.
    mean: Vec<f32>,
    /// Updates that wait for what is not here yet. A snapshot is without them.
    pending: Pending,
    groups: Groups,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    Send(Worker, Message),
    /// Make a reduction among these hosts.
    Open {
        group: u64,
        hosts: Vec<String>,
    },
    Expect {
        group: u64,
        round: u64,
    },
    Close {
        group: u64,
    },
    /// This worker has not pushed what it had announced: it has to go.
    Expel(Worker),
}

/// What is to be done, in its order.
pub(super) type Outputs = Vec<Output>;

/// One worker's gradient.
pub(super) struct Gradient {
    pub(super) iteration: u64,
    /// Updates that were in the parameters which it was computed from.
    pub(super) pulled: u64,
    /// None: it is only announced.
    pub(super) values: Option<Vec<f32>>,
}

/// How long a sum, or a gradient that was asked for, may take at least ...
const PATIENCE: Duration = Duration::from_secs(5);
/// ... and how much longer for each of its values: 4 MB/s is slow even for a switch in software.
const PATIENCE_PER_VALUE: Duration = Duration::from_micros(1);

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
            mean: vec![0.0; parameters.len()],
            parameters,
            used,
            held: BTreeMap::new(),
            computing: BTreeSet::new(),
            gathering: Some(BTreeSet::new()),
            updates,
            pending: Pending::default(),
            groups: Groups::default(),
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

    /// A worker has come, who is not there; its host, if it can take part in reductions.
    pub(super) fn join(&mut self, worker: Worker, host: Option<String>, stats: &mut JobStats) -> Outputs {
        self.groups.join(worker, host);
        let Some(gathered) = &mut self.gathering else { return self.begin(worker, stats) };
        gathered.insert(worker);
        if gathered.len() < usize::from(self.spec.workers.get()) {
            return Outputs::new();
        }
        self.start(stats)
    }

    /// Training starts with those who are there.
    pub(super) fn start(&mut self, stats: &mut JobStats) -> Outputs {
        let gathered = self.gathering.take().unwrap_or_default();
        gathered.into_iter().flat_map(|worker| self.begin(worker, stats)).collect()
    }

    fn begin(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        let actions = self.policy.join(worker, self.used(worker));
        self.settle(actions, worker, stats)
    }

    /// A gradient has come, or is announced. One that is here already, or was used before, changes nothing.
    pub(super) fn push(
        &mut self,
        worker: Worker,
        gradient: Gradient,
        stats: &mut JobStats,
    ) -> Result<Outputs, Refusal> {
        let Gradient { iteration, pulled, values } = gradient;
        let expected = self.used(worker);
        let length = self.parameters.len();
        if let Some(got) = values.as_ref().map(Vec::len).filter(|got| *got != length) {
            return Err(Refusal::Length { expected: length, got });
        }
        if iteration > expected {
            return Err(Refusal::Iteration { expected, got: iteration });
        }
        if self.computing.contains(&worker) {
            if iteration < expected {
                return Ok(vec![self.step(worker, worker)]);
            }
            self.computing.remove(&worker);
            self.held.insert(worker, Held { values, pulled });
            let actions = self.policy.arrive(worker);
            return Ok(self.settle(actions, worker, stats));
        }
        let mut out = Outputs::new();
        if let Some(values) = values.filter(|_| iteration == expected) {
            match self.held.get_mut(&worker) {
                Some(held) => held.values = held.values.take().or(Some(values)),
                None => self.pending.fill(worker, values),
            }
            self.complete(&mut out, stats);
        }
        Ok(out)
    }

    /// A worker has gone. Its gradient is used now or, if it comes back, asked for again.
    pub(super) fn leave(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        if let Some(gathered) = &mut self.gathering {
            gathered.remove(&worker);
            return Outputs::new();
        }
        self.computing.remove(&worker);
        let mut out = Outputs::new();
        for group in self.groups.leave(worker) {
            self.groups.end(group, &mut out);
            self.fall_back(group, &mut out, stats);
        }
        let actions = self.policy.leave(worker);
        out.extend(self.settle(actions, worker, stats));
        self.held.remove(&worker);
        self.pending.leave(worker);
        self.complete(&mut out, stats);
        out
    }

    /// Another server of the job has released this worker.
    pub(super) fn urge(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        let actions = self.policy.urge(worker);
        self.settle(actions, worker, stats)
    }

    /// Something has become of a reduction.
    pub(super) fn fabric(&mut self, group: u64, event: GroupEvent, stats: &mut JobStats) -> Outputs {
        let mut out = Outputs::new();
        match event {
            GroupEvent::Opened { job, token } => self.groups.opened(group, &job, &token, &mut out),
            GroupEvent::Live => self.groups.live(group),
            GroupEvent::Failed { reason } => self.give_up(group, &reason, &mut out, stats),
            GroupEvent::Sum(sum) => self.sum(group, &sum, &mut out, stats),
        }
        out
    }

    /// A worker's host cannot take part in a reduction.
    pub(super) fn fabric_failed(
        &mut self,
        worker: Worker,
        group: u64,
        reason: &str,
        stats: &mut JobStats,
    ) -> Outputs {
        let mut out = Outputs::new();
        if self.groups.is_member(worker, group) {
            self.give_up(group, &format!("worker {worker}: {reason}"), &mut out, stats);
        }
        out
    }

    /// To be called after each of the others, and when the [deadline](Self::deadline) is over: gives up what
    /// does not come, and makes the reductions fit the group.
    pub(super) fn conclude(&mut self, now: Instant, stats: &mut JobStats) -> Outputs {
        let mut out = Outputs::new();
        let length = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE + PATIENCE_PER_VALUE * length;
        // Once more at least: what then waits for something else has a deadline of its own.
        loop {
            let overdue = self.pending.overdue(now, patience);
            if overdue.is_empty() {
                break;
            }
            for overdue in overdue {
                match overdue {
                    Overdue::Sum(group) => self.give_up(group, "a sum does not come", &mut out, stats),
                    Overdue::Push(worker) => out.push(Output::Expel(worker)),
                }
            }
        }
        let (group, epoch) = (self.policy.group(), self.policy.progress().slowest_epoch());
        self.groups.follow(&group, epoch, &mut out);
        (stats.group, stats.updates, stats.epoch) = (group, self.updates, epoch);
        out
    }

    /// When something has to come at last.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.deadline()
    }

    fn used(&self, worker: Worker) -> u64 {
        self.used.get(&worker).copied().unwrap_or(0)
    }

    /// Does what the policy says, after something that `cause` did.
    fn settle(&mut self, actions: Vec<Action>, cause: Worker, stats: &mut JobStats) -> Outputs {
        let mut out = Outputs::new();
        for action in actions {
            match action {
                Action::Apply(parts) => self.apply(parts, &mut out, stats),
                Action::Release(worker) if self.pending.put_off(worker, cause) => {}
                Action::Release(worker) => self.release(worker, cause, &mut out),
            }
        }
        out
    }

    fn release(&mut self, worker: Worker, cause: Worker, out: &mut Outputs) {
        self.computing.insert(worker);
        out.push(self.step(worker, cause));
    }

    /// Makes an update, or puts it off until what its workers keep is here: as a sum, if they can take part
    /// in one, or one by one.
    fn apply(&mut self, mut parts: Vec<Part>, out: &mut Outputs, stats: &mut JobStats) {
        let kept = |part: &&Part| self.held.get(&part.worker).is_some_and(|held| held.values.is_none());
        let kept: BTreeSet<Worker> = parts.iter().filter(kept).map(|part| part.worker).collect();
        let rate = self.spec.rate(self.policy.progress().slowest_epoch());
        let mut wait = Wait::Pushes;
        if !kept.is_empty() {
            let scaled = weights::scale(&parts);
            let own = |part: &&Part| kept.contains(&part.worker);
            let granted: BTreeMap<_, _> = scaled.iter().filter(own).filter_map(weights::grant).collect();
            let all = granted.len() == kept.len();
            if all && let Some((group, round, zeros)) = self.groups.begin(&granted, out) {
                (parts, wait) = (scaled, Wait::Sum { group, round });
                stats.fabric_zeros += zeros as u64;
            } else {
                out.extend(kept.iter().map(|&worker| self.push_plain(worker)));
            }
        }
        let held = |part: Part| Some((part, self.held.remove(&part.worker)?));
        let parts = parts.into_iter().filter_map(held).collect();
        let update = Update { parts, rate, wait, released: Vec::new(), until: None };
        if kept.is_empty() {
            self.update(update.parts, rate, None, stats);
        } else {
            self.pending.add(update);
        }
    }

    fn push_plain(&self, worker: Worker) -> Output {
        Output::Send(worker, Message::PushPlain(PushPlain { iteration: self.used(worker) }))
    }

    fn sum(&mut self, group: u64, sum: &Sum, out: &mut Outputs, stats: &mut JobStats) {
        match self.groups.sum(group, sum, self.parameters.len(), out) {
            None => {}
            Some(Err(reason)) => self.give_up(group, &reason, out, stats),
            Some(Ok(())) => {
                if let Some(update) = self.pending.take_sum(group, sum.round) {
                    stats.fabric_rounds += 1;
                    self.update(update.parts, update.rate, Some(&sum.values), stats);
                    update.released.into_iter().for_each(|(worker, cause)| self.release(worker, cause, out));
                }
            }
        }
    }

    /// Goes on without a reduction.
    fn give_up(&mut self, group: u64, reason: &str, out: &mut Outputs, stats: &mut JobStats) {
        if self.groups.fail(group, self.policy.progress().slowest_epoch(), out) {
            tracing::warn!(job = self.spec.name, group, reason, "the group goes on without the fabric");
            self.fall_back(group, out, stats);
        }
    }

    /// What would have come as a sum has to come one by one.
    fn fall_back(&mut self, group: u64, out: &mut Outputs, stats: &mut JobStats) {
        let (rounds, workers) = self.pending.fall_back(group);
        stats.fabric_fallbacks += rounds;
        out.extend(workers.into_iter().map(|worker| self.push_plain(worker)));
    }

    /// Makes the updates that have come together.
    fn complete(&mut self, out: &mut Outputs, stats: &mut JobStats) {
        for update in self.pending.take_complete() {
            self.update(update.parts, update.rate, None, stats);
            update.released.into_iter().for_each(|(worker, cause)| self.release(worker, cause, out));
        }
    }

    /// One update, by the weighted mean of gradients; `sum` has what is not here of them.
    fn update(&mut self, parts: Vec<(Part, Held)>, rate: f32, sum: Option<&[f32]>, stats: &mut JobStats) {
        let total: f64 = parts.iter().map(|(part, _)| part.weight as f64).sum();
        match (&parts[..], sum) {
            ([], _) => return,
            ([(_, Held { values: Some(values), .. })], None) => {
                self.optimizer.update(&mut self.parameters, values, rate);
            }
            (parts, sum) => {
                match sum {
                    Some(sum) => {
                        let share = |(mean, sum): (&mut f32, &f32)| *mean = sum / total as f32;
                        self.mean.iter_mut().zip(sum).for_each(share);
                    }
                    None => self.mean.fill(0.0),
                }
                for (part, held) in parts {
                    let share = (part.weight as f64 / total) as f32;
                    let values = held.values.iter().flatten();
                    self.mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += share * value);
                }
                self.optimizer.update(&mut self.parameters, &self.mean, rate);
            }
        }
        for (part, held) in parts {
            *self.used.entry(part.worker).or_default() += 1;
            // After the server went back to a checkpoint, workers may have seen more updates than it has.
            stats.used(part.worker, self.updates.saturating_sub(held.pulled));
        }
        self.updates += 1;
    }

    fn step(&self, worker: Worker, released_by: Worker) -> Output {
        let group = self.policy.group();
        let step = Step {
            iteration: self.used(worker),
            updates: self.updates,
            parameters: values::encode(&self.parameters),
            released_by: released_by.into(),
            in_group: group.contains(&worker),
            group: self.groups.of(worker, &group).unwrap_or(0),
        };
        Output::Send(worker, Message::Step(step))
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

    /// The steps of what is to be done.
    fn steps(outputs: &Outputs) -> Vec<(Worker, Step)> {
        let step = |output: &Output| match output {
            Output::Send(worker, Message::Step(step)) => Some((*worker, step.clone())),
            _ => None,
        };
        outputs.iter().filter_map(step).collect()
    }

    fn workers(outputs: &Outputs) -> Vec<Worker> {
        steps(outputs).iter().map(|(worker, _)| *worker).collect()
    }

    fn gradient(iteration: u64, values: [f32; 2]) -> Gradient {
        Gradient { iteration, pulled: 0, values: Some(values.to_vec()) }
    }

    #[test]
    fn training_starts_when_all_are_there_or_without_the_missing() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 3);
        assert!(job.join(2, None, &mut stats).is_empty() && job.join(0, None, &mut stats).is_empty());
        assert_eq!(workers(&job.start(&mut stats)), [0, 2]);
        assert_eq!(workers(&job.join(1, None, &mut stats)), [1]);
    }

    #[test]
    fn a_round_is_one_update_by_the_mean() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, None, &mut stats);
        assert_eq!(workers(&job.join(1, None, &mut stats)), [0, 1]);
        assert!(job.push(1, gradient(0, [1.0, 3.0]), &mut stats).unwrap().is_empty());
        let released = job.push(0, gradient(0, [3.0, 1.0]), &mut stats).unwrap();
        assert_eq!(workers(&released), [0, 1]);
        assert_eq!((job.parameters(), job.updates()), (&[-2.0, -2.0][..], 1));
        assert_eq!((steps(&released)[1].1.iteration, steps(&released)[1].1.released_by), (1, 0));
    }

    #[test]
    fn a_gradient_that_comes_again_changes_nothing() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, None, &mut stats);
        job.join(1, None, &mut stats);
        for _ in 0..3 {
            assert!(job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap().is_empty());
        }
        job.push(1, gradient(0, [1.0; 2]), &mut stats).unwrap();
        let again = job.push(1, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert_eq!((workers(&again), steps(&again)[0].1.iteration), (vec![1], 1));
        assert_eq!((job.parameters()[0], job.updates()), (-1.0, 1));
        let ahead = job.push(1, gradient(5, [1.0; 2]), &mut stats);
        assert_eq!(ahead, Err(Refusal::Iteration { expected: 1, got: 5 }));
    }

    #[test]
    fn what_a_worker_leaves_behind_is_asked_for_again_or_used() {
        let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
        job.join(0, None, &mut stats);
        job.join(1, None, &mut stats);
        job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert!(job.leave(0, &mut stats).is_empty());
        assert_eq!(steps(&job.join(0, None, &mut stats))[0].1.iteration, 0, "its gradient was not used");
        job.push(0, gradient(0, [1.0; 2]), &mut stats).unwrap();
        assert_eq!(workers(&job.leave(1, &mut stats)), [0]);
        assert_eq!(job.updates(), 1);
    }

    #[test]
    fn a_restored_job_goes_on_where_the_snapshot_was() {
        let (mut job, mut stats) = job(PolicyKind::Asp, 1);
        job.join(0, None, &mut stats);
        job.push(0, gradient(0, [1.0, 2.0]), &mut stats).unwrap();
        let mut restored = Job::restore(job.spec.clone(), job.snapshot()).unwrap();
        let steps = steps(&restored.join(0, None, &mut JobStats::default()));
        assert_eq!((steps[0].1.iteration, steps[0].1.updates), (1, 1));
        assert_eq!(restored.parameters(), [-1.0, -2.0]);
        assert!(restored.check_range(0, 2).is_ok() && restored.check_range(1, 2).is_err());
    }
}
