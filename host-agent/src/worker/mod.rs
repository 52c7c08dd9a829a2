//! The worker's agent: all-reduces for a training process.

mod detached;
mod regroup;
mod role;
mod start;
mod wait;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use tributary_api::JobConfig;
use tributary_link::FramePort;
use tributary_protocol::{AllReduce, FinishedSlice, Reduced, Timers, WorkerProgress, WorkerStats};
use tributary_wire::{Rank, Seq};

use crate::AgentStats;
use crate::error::AgentError;
use crate::handle::Handle;
pub use detached::Detached;
pub use regroup::Regroup;
use role::{Asked, Command, Reply, WorkerRole};
pub use wait::Wait;

/// The agent of one worker of a job. Training threads share it by reference. Dropping it stops its
/// thread.
pub struct WorkerAgent(Handle<WorkerRole>);

/// A value that is kept with an all-reduce's data, and returned with its result. An all-reduce that
/// has failed or that its caller has abandoned continues in the background after the answer. It keeps the value until
/// it is done.
pub(crate) struct KeptAlive(#[allow(dead_code, reason = "to be dropped")] Box<dyn Send>);

impl KeptAlive {
    pub(crate) fn new(held: impl Send + 'static) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for KeptAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptAlive")
    }
}

/// The terms of an all-reduce.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    /// The time limit of the all-reduce, counted from the end of the preceding all-reduce; `None` if it
    /// has no limit.
    pub(crate) deadline: Option<Duration>,
    /// The generation whose joiners this all-reduce synchronises; 0 if it does not synchronise.
    pub(crate) regroup: u32,
    /// The position of the all-reduce in its stream. It is refused if an earlier all-reduce of the stream
    /// was refused.
    pub(crate) position: StreamPosition,
}

/// The place of an all-reduce among all-reduces that a process starts one after another without
/// waiting for results.
/// If one all-reduce is not started, no later one is started. A later all-reduce would otherwise take its place in the
/// order of the job's operations, and would be added to other members' all-reduces of another name. Earlier all-reduces
/// are started, even if the worker handles them later.
#[derive(Debug, Clone)]
pub(crate) struct StreamPosition {
    place: u64,
    /// The first place whose all-reduce was not started; `u64::MAX` if there is none.
    broken: Arc<AtomicU64>,
}

impl Default for StreamPosition {
    fn default() -> Self {
        Self { place: 0, broken: Arc::new(AtomicU64::new(u64::MAX)) }
    }
}

impl StreamPosition {
    /// Returns the position with number `place` in the same stream.
    pub(crate) fn at(&self, place: u64) -> Self {
        Self { place, broken: Arc::clone(&self.broken) }
    }

    /// Notes that the all-reduce at this position was not started.
    pub(crate) fn break_off(&self) {
        self.broken.fetch_min(self.place, Ordering::AcqRel);
    }

    /// Returns true if the all-reduce at this position, or an earlier one, was not started.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire) <= self.place
    }
}

/// The answer to an all-reduce.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) outcome: Outcome,
    /// The members of the job at the time of the answer.
    pub(crate) members: Arc<Members>,
    /// The value that was kept with the data, if the outcome contains the data; `None` if the worker
    /// still has the data.
    #[allow(dead_code, reason = "to be dropped")]
    pub(crate) held: Option<KeptAlive>,
}

/// The outcome of an all-reduce.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The sums of the all-reduce.
    Reduced(Reduced),
    /// The all-reduce has no sums, because the members must synchronise first.
    Regroup(Regroup),
    /// The all-reduce has no sums, because the job continues without this worker for now.
    Detached(Detached),
}

/// The members of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The generation's number.
    pub generation: u32,
    /// Ranks of the members, ascending.
    pub ranks: Vec<Rank>,
    /// Ranks whose data the members process, ascending: the members' own ranks and the ranks whose data
    /// they have adopted.
    pub shards: Vec<Rank>,
    /// Ranks that have left the job while this worker was a member, with the reasons.
    pub lost: BTreeMap<Rank, String>,
}

/// The present situation of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// The members of the job.
    pub members: Arc<Members>,
    /// The joiners with which the process must synchronise, if any.
    pub regroup: Option<Regroup>,
    /// The wait of the all-reduces under way, if any.
    pub wait: Option<Wait>,
    /// True if an abandoned all-reduce is not done. Other members may still finish it with this worker's
    /// contribution.
    pub has_given_up: bool,
}

impl WorkerAgent {
    /// Starts a worker with the controller's configuration, on the port that leads to its first switch.
    ///
    /// [`AgentError::OtherRole`] if the configuration is for a server; [`AgentError::Config`] or [`AgentError::Frame`]
    /// if it is invalid; [`AgentError::System`] if the port cannot be registered or the thread cannot be started;
    /// [`AgentError::Mtu`] if the port does not carry the job's frames.
    pub fn start(config: &JobConfig, timers: Timers, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        let role = WorkerRole::new(config, timers)?;
        Handle::start(&format!("worker {}", role.rank()), (&config.name, config.width), role, port).map(Self)
    }

    /// Runs an all-reduce over all members of the job, and blocks until the result has arrived. Every
    /// member must start the same operations in the same order. Operations of several threads run in the order of their
    /// calls.
    ///
    /// # Errors
    /// [`AgentError::Collective`] if the operation failed; [`AgentError::Refused`] if it was not started;
    /// [`AgentError::Regroup`] if members have joined; [`AgentError::Detached`] while the job continues without this
    /// worker; [`AgentError::Ended`] if the agent has ended, or ends before the result.
    pub fn all_reduce(&self, operation: AllReduce) -> Result<Reduced, AgentError> {
        let (sender, result) = bounded(1);
        // The answer is dropped if the caller no longer waits for it.
        let reply: Reply = Box::new(move |reduction| drop(sender.send(reduction)));
        let (terms, held) = (Terms::default(), KeptAlive::new(()));
        self.0.submit(Command::Reduce(Asked { operation, bounds: None, terms, held, reply }))?;
        match self.0.wait_for(&result)??.outcome {
            Outcome::Reduced(reduced) => Ok(reduced),
            Outcome::Regroup(Regroup { joined, .. }) => Err(AgentError::Regroup { joined }),
            Outcome::Detached(detached) => Err(AgentError::Detached(detached)),
        }
    }

    /// Freezes the worker, and returns its progress. A frozen worker accepts no result, sends nothing,
    /// and begins no operation until [`proceed`](Self::proceed) or [`change`](Self::change).
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn freeze(&self) -> Result<WorkerProgress, AgentError> {
        self.0.ask(|reply| Command::Freeze { reply }).await
    }

    /// Continues in the present generation until `until` operations, counted from the job's start, are
    /// begun and finished. Returns the worker's progress then, or earlier if another request interrupts it.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn proceed(&self, until: u64) -> Result<WorkerProgress, AgentError> {
        self.0.ask(|reply| Command::Proceed { until, reply }).await
    }

    /// Returns the results of the `slices` that the worker still has.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn finished(&self, slices: Vec<Seq>) -> Result<Vec<FinishedSlice>, AgentError> {
        self.0.ask(|reply| Command::Provide { slices, reply }).await
    }

    /// Changes to another generation of the job, and continues if the worker was frozen. If the worker is
    /// already in that generation, it only continues.
    ///
    /// # Errors
    /// [`AgentError::Change`], [`AgentError::OtherRole`], [`AgentError::Config`] or [`AgentError::Frame`] if the
    /// configuration is invalid; the worker then stays in the old generation. [`AgentError::Ended`] if the agent has
    /// ended.
    pub async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        let config = Box::new(config.clone());
        self.0.ask(|reply| Command::Change { config, reply }).await?
    }

    /// Detaches the worker; the job continues without it. A detached worker sends nothing and accepts
    /// nothing. All its operations, including those under way, end with `detached`. The state ends when the worker
    /// [changes](Self::change) to a generation of which it is a member.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn detach(&self, detached: Detached) -> Result<(), AgentError> {
        self.0.ask(|reply| Command::Detach { detached, reply }).await
    }

    /// Returns the worker's present situation.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn situation(&self) -> Result<Situation, AgentError> {
        self.0.ask(|reply| Command::Look { reply }).await
    }

    /// Returns the present values of the counters.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<WorkerStats>, AgentError> {
        self.0.stats()
    }

    /// Ends the agent from any thread. Callers that wait for a result get [`AgentError::Ended`] with this
    /// reason.
    pub fn end(&self, reason: &str) {
        self.0.end(reason);
    }

    /// Waits until the agent has ended, on request or because of a failure, and returns the reason: an
    /// [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        self.0.wait_for_end().await
    }

    /// Stops the agent and waits for its thread. Callers that still wait for a result get no result.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent had failed before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.0.stop()
    }
}
