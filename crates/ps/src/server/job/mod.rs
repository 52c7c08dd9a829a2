//! A job's parameters and gradients, without I/O and threads. The caller passes the time as an
//! argument.

mod gathering;
mod sums;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thiserror::Error;
use tributary_api::ps::Step;
use tributary_api::ps::server_message::Message;

use super::checkpoint::Snapshot;
use super::group::GroupReductions;
use super::output::{Output, Outputs};
use super::pending::{Overdue, Pending, PendingGradient};
use super::spec::JobSpec;
use super::stats::JobStats;
use crate::optimizer::{Optimizer, OptimizerError};
use crate::policy::{Action, Policy, Worker};
use crate::values;
use gathering::Gathering;

/// The error of a worker's message that cannot be used. It ends only that worker's session.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum InvalidMessage {
    #[error(
        "this server holds {length} parameters from number {first} on, and the worker means {} from number {} on: give all \
         workers the same servers in the same order, and models of the same size",
        got.1, got.0
    )]
    Range { first: u64, length: u64, got: (u64, u64) },
    #[error("a gradient of iteration {got} where {expected} is the next one")]
    Iteration { expected: u64, got: u64 },
    #[error("a gradient of {got} values where there are {expected} parameters")]
    Length { expected: usize, got: usize },
}

/// Parameters in training.
pub(super) struct Job {
    spec: JobSpec,
    /// The checksum of the job's settings.
    checksum: u32,
    /// The range's first parameter in the model.
    first: u64,
    parameters: Vec<f32>,
    optimizer: Box<dyn Optimizer>,
    policy: Box<dyn Policy>,
    /// Number of gradients of each worker that the parameters contain.
    used: BTreeMap<Worker, u64>,
    held: BTreeMap<Worker, PendingGradient>,
    /// Workers that have the present parameters and whose gradients have not arrived.
    computing: BTreeSet<Worker>,
    /// The workers that have joined before training starts; `None` during training.
    gathering: Option<Gathering>,
    updates: u64,
    /// True if some parameter is infinite or not a number. No later update can repair this.
    diverged: bool,
    /// A buffer for weighted means of gradients.
    mean: Vec<f32>,
    /// Updates that wait for gradients or sums. They are not part of a snapshot.
    pending: Pending,
    groups: GroupReductions,
}

/// One worker's gradient.
pub(super) struct Gradient {
    pub(super) iteration: u64,
    /// The number of updates in the parameters from which the gradient was computed.
    pub(super) pulled: u64,
    /// The values; `None` if the worker has only announced the gradient.
    pub(super) values: Option<Vec<f32>>,
}

/// The workers or gradients that the waiting workers need.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    /// Before training starts, the workers that have not joined; afterwards, the workers whose gradients
    /// are missing.
    pub(super) workers: BTreeSet<Worker>,
    /// The time at which training starts without the missing workers; `None` during training.
    pub(super) start: Option<Instant>,
}

/// The least time to wait for a sum, or for a gradient that was requested.
const PATIENCE: Duration = Duration::from_secs(5);
/// The additional time per value. It allows 4 MB/s, which is slow even for a software switch.
const PATIENCE_PER_VALUE: Duration = Duration::from_micros(1);

impl Job {
    /// Creates a new job with the initial parameters of its first worker.
    pub(super) fn new(spec: JobSpec, first: u64, initial: Vec<f32>) -> Result<Self, OptimizerError> {
        let optimizer = spec.optimizer.build(initial.len(), None)?.state();
        let (job, used) = (spec.name.clone(), BTreeMap::new());
        Self::restore(spec, Snapshot { job, first, parameters: initial, optimizer, used, updates: 0 })
    }

    /// Restores a job from its checkpoint. The policy starts without groups.
    pub(super) fn restore(spec: JobSpec, snapshot: Snapshot) -> Result<Self, OptimizerError> {
        let Snapshot { first, parameters, optimizer, used, updates, .. } = snapshot;
        Ok(Self {
            policy: spec.policy(),
            checksum: spec.checksum(),
            optimizer: spec.optimizer.build(parameters.len(), Some(optimizer))?,
            spec,
            first,
            mean: vec![0.0; parameters.len()],
            parameters,
            used,
            held: BTreeMap::new(),
            computing: BTreeSet::new(),
            gathering: Some(Gathering::default()),
            updates,
            diverged: false,
            pending: Pending::default(),
            groups: GroupReductions::default(),
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

    /// Returns the workers or gradients that the waiting workers need.
    pub(super) fn awaited(&self) -> Awaited {
        match &self.gathering {
            Some(gathering) => {
                Awaited { workers: gathering.missing(self.spec.workers), start: gathering.until() }
            }
            None => Awaited { workers: self.computing.clone(), start: None },
        }
    }

    /// Checks that the range that a worker requests is the range of this server.
    pub(super) fn check_range(&self, first: u64, length: u64) -> Result<(), InvalidMessage> {
        let own = (self.first, self.parameters.len() as u64);
        if (first, length) == own {
            return Ok(());
        }
        Err(InvalidMessage::Range { first: own.0, length: own.1, got: (first, length) })
    }

    /// Adds a worker that is not present. `host` is its host if the host can take part in reductions.
    pub(super) fn join(
        &mut self,
        worker: Worker,
        host: Option<String>,
        now: Instant,
        stats: &mut JobStats,
    ) -> Outputs {
        self.groups.join(worker, host);
        let Some(gathering) = &mut self.gathering else { return self.begin(worker, stats) };
        gathering.join(worker, now, self.spec.gather_time());
        self.start(now, stats)
    }

    /// Starts training if all workers are present, or if the time for the missing ones is over.
    fn start(&mut self, now: Instant, stats: &mut JobStats) -> Outputs {
        let workers = self.spec.workers;
        let is_due = |gathering: &mut Gathering| {
            gathering.missing(workers).is_empty() || gathering.until().is_some_and(|until| until <= now)
        };
        let Some(gathering) = self.gathering.take_if(is_due) else { return Outputs::new() };
        let missing = gathering.missing(workers);
        if missing.is_empty() {
            tracing::info!(job = self.spec.name, %workers, "all workers are there: training starts");
        } else {
            tracing::warn!(
                job = self.spec.name,
                ?missing,
                "training starts without the workers that are missing"
            );
        }
        gathering.end().into_iter().flat_map(|worker| self.begin(worker, stats)).collect()
    }

    /// Returns to the state before training starts, because all workers have lost this server or will
    /// notice that they have. The server gathers them again, as after a restart from a checkpoint, and they
    /// push unused gradients again. Gradients from before must not be used until all workers are back.
    pub(super) fn gather_again(&mut self, stats: &mut JobStats) -> Outputs {
        let mut out = Outputs::new();
        self.groups.end_all(&mut out);
        self.policy = self.spec.policy();
        (self.held, self.computing, self.pending) = Default::default();
        self.gathering = Some(Gathering::default());
        stats.group.clear();
        out
    }

    fn begin(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        let actions = self.policy.join(worker, self.used(worker));
        self.settle(actions, worker, stats)
    }

    /// Handles a gradient that has arrived or is announced. A gradient that arrived or was used before
    /// changes nothing.
    pub(super) fn push(
        &mut self,
        worker: Worker,
        gradient: Gradient,
        now: Instant,
        stats: &mut JobStats,
    ) -> Result<Outputs, InvalidMessage> {
        let Gradient { iteration, pulled, values } = gradient;
        let expected = self.used(worker);
        let length = self.parameters.len();
        if let Some(got) = values.as_ref().map(Vec::len).filter(|got| *got != length) {
            return Err(InvalidMessage::Length { expected: length, got });
        }
        if iteration > expected {
            return Err(InvalidMessage::Iteration { expected, got: iteration });
        }
        if self.computing.contains(&worker) {
            if iteration < expected {
                return Ok(vec![self.step(worker, worker)]);
            }
            self.computing.remove(&worker);
            self.held.insert(worker, PendingGradient { values, pulled });
            let actions = self.policy.arrive(worker, now);
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

    /// Removes a worker. Its gradient is used now. Otherwise the server requests it again if the worker
    /// comes back.
    pub(super) fn leave(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        if let Some(gathering) = &mut self.gathering {
            self.groups.leave(worker);
            gathering.leave(worker);
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
        if self.policy.progress().workers().len() == 0 {
            // All workers have lost their connections. The first one that comes back must not train alone.
            self.gathering = Some(Gathering::default());
        }
        out
    }

    /// Handles the notification that another server of the job has released this worker.
    pub(super) fn urge(&mut self, worker: Worker, stats: &mut JobStats) -> Outputs {
        let actions = self.policy.urge(worker);
        self.settle(actions, worker, stats)
    }

    /// Handles sums and gradients that are overdue, and adapts the reductions to the policy's group. The
    /// caller calls this after each other method, and at the [deadline](Self::deadline).
    pub(super) fn conclude(&mut self, now: Instant, stats: &mut JobStats) -> Outputs {
        let mut out = self.start(now, stats);
        let length = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE + PATIENCE_PER_VALUE * length;
        // The loop needs at least two passes, because an update that now waits for another event gets a new
        // deadline.
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

    /// Returns the earliest deadline of a sum, of a gradient, or of the start of training.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let start = self.gathering.as_ref().and_then(Gathering::until);
        start.into_iter().chain(self.pending.deadline()).min()
    }

    fn used(&self, worker: Worker) -> u64 {
        self.used.get(&worker).copied().unwrap_or(0)
    }

    /// Carries out the policy's actions. The worker `cause` has triggered them.
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

    fn step(&self, worker: Worker, released_by: Worker) -> Output {
        let group = self.policy.group();
        let step = Step {
            iteration: self.used(worker),
            updates: self.updates,
            parameters: values::encode(&self.parameters),
            change: Vec::new(),
            released_by: released_by.into(),
            in_group: group.contains(&worker),
            group: self.groups.of(worker, &group).unwrap_or(0),
            job_settings: self.checksum,
        };
        Output::Send(worker, Message::Step(step))
    }
}

#[cfg(test)]
mod tests;
