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
use tributary_protocol::{AllReduce, FinishedSlice, Reduced, Standing, Timers, WorkerStats};
use tributary_wire::{Rank, Seq};

use crate::AgentStats;
use crate::error::AgentError;
use crate::handle::Handle;
pub use detached::Detached;
pub use regroup::Regroup;
use role::{Asked, Command, Reply, WorkerRole};
pub use wait::Wait;

/// One member of a job. Training threads share it by reference; dropping it stops its thread.
pub struct WorkerAgent(Handle<WorkerRole>);

/// A value that is kept as long as an all-reduce's data, and returned with its result.
/// An all-reduce that has failed or that its caller has abandoned continues in the background after the answer, and
/// keeps the value until it is done.
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
    /// Time that it may take once the all-reduces before it have ended; `None`: any time.
    pub(crate) deadline: Option<Duration>,
    /// The generation for whose joiners it synchronises; 0: none.
    pub(crate) regroup: u32,
    /// Its position in a stream: it is refused if an earlier one was.
    pub(crate) position: StreamPosition,
}

/// An all-reduce's place among all-reduces that are started one after another without waiting for the
/// results. If one of them is not started, no later one is started: a later all-reduce would take its place in the
/// order of the job's operations, and would be added to other members' all-reduces of another name. Earlier all-reduces
/// are started, even if the worker handles them later.
#[derive(Debug, Clone)]
pub(crate) struct StreamPosition {
    place: u64,
    /// The first place whose all-reduce was not started; the highest number: there is none.
    broken: Arc<AtomicU64>,
}

impl Default for StreamPosition {
    fn default() -> Self {
        Self { place: 0, broken: Arc::new(AtomicU64::new(u64::MAX)) }
    }
}

impl StreamPosition {
    /// The position with this number in the same stream.
    pub(crate) fn at(&self, place: u64) -> Self {
        Self { place, broken: Arc::clone(&self.broken) }
    }

    /// Notes that the all-reduce of this place is not started.
    pub(crate) fn break_off(&self) {
        self.broken.fetch_min(self.place, Ordering::AcqRel);
    }

    /// Returns true if the all-reduce of this place, or an earlier one, was not started.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire) <= self.place
    }
}

/// The end of an all-reduce.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) outcome: Outcome,
    /// The members of the job by now.
    pub(crate) members: Arc<Members>,
    /// The value kept with the data, which is now in the outcome; `None`: the worker still has the data.
    #[allow(dead_code, reason = "to be dropped")]
    pub(crate) held: Option<KeptAlive>,
}

/// The outcome of an all-reduce.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Its sums.
    Reduced(Reduced),
    /// No sums: the members have to synchronise first.
    Regroup(Regroup),
    /// No sums: the job continues without this worker for now.
    Detached(Detached),
}

/// The members of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The generation's number.
    pub generation: u32,
    /// Ranks of the members, ascending.
    pub ranks: Vec<Rank>,
    /// Ranks whose data the members process, ascending: their own, and those that they have adopted.
    pub shards: Vec<Rank>,
    /// Ranks that have left the job while this worker was in it, with the reasons.
    pub lost: BTreeMap<Rank, String>,
}

/// The present situation of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// The members of the job.
    pub members: Arc<Members>,
    /// The joiners for which the process has to synchronise, if any.
    pub regroup: Option<Regroup>,
    /// The state of the wait of the all-reduces under way, if any.
    pub wait: Option<Wait>,
    /// True if an abandoned all-reduce is not done.
    /// Others may still finish it with this worker's contribution.
    pub has_given_up: bool,
}

impl WorkerAgent {
    /// Starts a worker with the controller's configuration, on the port that leads to its first switch.
    ///
    /// # Errors
    /// [`AgentError::OtherRole`] for a server's configuration, [`AgentError::Config`] and [`AgentError::Frame`] for an
    /// invalid one, [`AgentError::System`] when the port cannot be registered or the thread cannot be started,
    /// [`AgentError::Mtu`] when the port does not carry the job's frames.
    pub fn start(config: &JobConfig, timers: Timers, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        let role = WorkerRole::new(config, timers)?;
        Handle::start(&format!("worker {}", role.rank()), (&config.name, config.width), role, port).map(Self)
    }

    /// Reduces over all members of the job and blocks until the result has arrived.
    /// Every member must start the same operations in the same order; operations of several threads run in the order of
    /// their calls.
    ///
    /// # Errors
    /// [`AgentError::Collective`] when the operation failed, [`AgentError::Refused`] when it was not started,
    /// [`AgentError::Regroup`] when members have joined, [`AgentError::Detached`] as long as the job continues without
    /// this worker, [`AgentError::Ended`] when the agent has ended, or ends meanwhile.
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

    /// Freezes the worker: it takes no result, sends nothing and begins no operation until it
    /// [proceeds](Self::proceed) or [changes](Self::change). Returns its standing.
    ///
    /// # Errors
    /// [`AgentError::Ended`].
    pub async fn freeze(&self) -> Result<Standing, AgentError> {
        self.0.ask(|reply| Command::Freeze { reply }).await
    }

    /// Continues in the present generation until `until` operations are begun and finished.
    /// They count from the job's start. Returns the worker's standing then, or earlier if another request interrupts
    /// it.
    ///
    /// # Errors
    /// [`AgentError::Ended`].
    pub async fn proceed(&self, until: u64) -> Result<Standing, AgentError> {
        self.0.ask(|reply| Command::Proceed { until, reply }).await
    }

    /// The results of the `slices`, as far as the worker still has them.
    ///
    /// # Errors
    /// [`AgentError::Ended`].
    pub async fn finished(&self, slices: Vec<Seq>) -> Result<Vec<FinishedSlice>, AgentError> {
        self.0.ask(|reply| Command::Provide { slices, reply }).await
    }

    /// Changes to another generation of the job, and continues if it was frozen. In a generation that it is
    /// in already, it only goes on.
    ///
    /// # Errors
    /// [`AgentError::Change`], [`AgentError::OtherRole`], [`AgentError::Config`] and [`AgentError::Frame`] for an
    /// invalid configuration: the worker then stays in the old generation. [`AgentError::Ended`].
    pub async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        let config = Box::new(config.clone());
        self.0.ask(|reply| Command::Change { config, reply }).await?
    }

    /// Detaches the worker, without which the job continues: it sends and takes nothing, and all its
    /// operations, including those under way, end with `detached`. This lasts until it [changes](Self::change) to a
    /// generation that it is in again.
    ///
    /// # Errors
    /// [`AgentError::Ended`].
    pub async fn detach(&self, detached: Detached) -> Result<(), AgentError> {
        self.0.ask(|reply| Command::Detach { detached, reply }).await
    }

    /// The worker's present situation.
    ///
    /// # Errors
    /// [`AgentError::Ended`].
    pub async fn situation(&self) -> Result<Situation, AgentError> {
        self.0.ask(|reply| Command::Look { reply }).await
    }

    /// Returns the present values of the counters.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<WorkerStats>, AgentError> {
        self.0.stats()
    }

    /// Ends the agent from any thread; callers that wait for a result get
    /// [`AgentError::Ended`] with this reason.
    pub fn end(&self, reason: &str) {
        self.0.end(reason);
    }

    /// Waits until the agent has ended, on request or because of a failure, and returns the reason: an
    /// [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        self.0.wait_for_end().await
    }

    /// Stops the agent and waits for its thread. A result that is still awaited by others will not come.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent had failed before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.0.stop()
    }
}
