//! The worker's agent: all-reduces for a training process.

mod detached;
mod members;
mod regroup;
mod request;
mod state;
mod stripes;
mod training_progress;
mod wait;

use std::sync::Arc;

use mio::Waker;
use tributary_api::{JobConfig, Role, v1};
use tributary_link::FramePort;
use tributary_protocol::{
    AllReduce, FinishedSlice, JointAllReduce, Reduced, StripedReduced, Timers, WorkerProgress, WorkerStats,
};
use tributary_wire::{Rank, Seq};

use crate::AgentStats;
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::ports_of_stripes;
pub use detached::Detached;
pub use members::Members;
pub use regroup::Regroup;
pub(crate) use request::{Completion, ReduceRequest, StreamPosition};
use state::WorkerState;
use stripes::other_role;
pub(crate) use training_progress::StepPart;
pub use wait::Wait;

/// The agent of one worker of a job.
pub type WorkerAgent = Handle<WorkerState>;

/// The present situation of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// The worker's rank.
    pub rank: Rank,
    /// The maximum number of slices in flight.
    pub window: u32,
    /// The number of switches that added the job's gradients when the worker joined.
    pub switches: u32,
    /// The members of the job.
    pub members: Arc<Members>,
    /// The joiners with which the process must synchronise, if any.
    pub regroup: Option<Regroup>,
    /// The reason while the job continues without this worker.
    pub detached: Option<Detached>,
    /// The wait of the all-reduces under way, if any.
    pub wait: Option<Wait>,
    /// True if an abandoned all-reduce is not done. Other members may still finish it with this worker's
    /// contribution.
    pub has_given_up: bool,
}

impl Handle<WorkerState> {
    /// Starts a worker with the controller's configuration, on the port that leads to its first switch.
    ///
    /// [`AgentError::OtherRole`] if the configuration is for a server; [`AgentError::Config`] or [`AgentError::Frame`]
    /// if it is invalid; [`AgentError::System`] if the port cannot be registered or the thread cannot be started;
    /// [`AgentError::Mtu`] if the port does not carry the job's frames.
    pub fn start(config: &JobConfig, timers: Timers, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Self::start_threads(config, timers, vec![port])
    }

    /// Starts a worker whose stripes run in threads. Each has a port of its own.
    ///
    /// # Errors
    /// As for [`start`](Self::start); [`AgentError::Ports`] if the number of ports is not that of the stripes.
    pub fn start_threads(
        config: &JobConfig,
        timers: Timers,
        ports: Vec<Box<dyn FramePort>>,
    ) -> Result<Self, AgentError> {
        let Role::Worker { rank, .. } = &config.role else { return Err(other_role(config)) };
        let mut ports = ports_of_stripes(config, ports)?;
        let stripes = ports.len() as u32;
        let first = ports.remove(0);
        let state = |waker: &Arc<Waker>| WorkerState::new(config, timers, ports, waker);
        let mut handle = Self::spawn(&format!("worker {rank}"), (&config.name, config.width), state, first)?;
        handle.stripes = stripes;
        Ok(handle)
    }

    /// Runs an all-reduce over all members of the job, and blocks until the result has arrived. Every
    /// member must start the same operations in the same order. Operations of several threads run in the order of their
    /// calls. Must not be called in async code.
    ///
    /// # Errors
    /// [`AgentError::Collective`] if the operation failed; [`AgentError::Refused`] if it was not started;
    /// [`AgentError::Regroup`] if members have joined; [`AgentError::Detached`] while the job continues without this
    /// worker; [`AgentError::Ended`] if the agent has ended, or ends before the result.
    pub fn all_reduce(&self, operation: AllReduce) -> Result<Reduced, AgentError> {
        let operation = JointAllReduce::from(operation);
        Ok(self.all_reduce_stripes(operation.divided(self.stripes, self.width))?.joined())
    }

    /// Runs an all-reduce that is [divided](JointAllReduce::divided) among the worker's stripes, otherwise
    /// like [`all_reduce`](Self::all_reduce).
    ///
    /// # Errors
    /// As for [`all_reduce`](Self::all_reduce).
    pub fn all_reduce_stripes(&self, operations: Vec<JointAllReduce>) -> Result<StripedReduced, AgentError> {
        let request = ReduceRequest::new(operations);
        let result = self.request(|worker, now, reply| worker.reduce(now, request, reply))?;
        Ok(result.blocking_recv().map_err(|_| self.end_error())??.reduced)
    }

    /// Starts an all-reduce after all all-reduces that were started before, and returns a future of its
    /// result. When `start_reduce` returns, the position of the all-reduce in the order is fixed. The all-reduce
    /// continues if the future is dropped.
    ///
    /// The future's errors are the errors of [`all_reduce`](Self::all_reduce), [`AgentError::Deadline`] and
    /// [`AgentError::StreamBroken`].
    pub(crate) fn start_reduce(
        self: &Arc<Self>,
        request: ReduceRequest,
    ) -> impl Future<Output = Result<Completion, AgentError>> + Send + 'static + use<> {
        let started = self.request(|worker, now, reply| worker.reduce(now, request, reply));
        let agent = Arc::clone(self);
        async move { started?.await.map_err(|_| agent.end_error())? }
    }

    /// Freezes the worker, and returns its progress. A frozen worker accepts no result, sends nothing,
    /// and begins no operation until [`proceed`](Self::proceed) or [`change`](Self::change).
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn freeze(&self) -> Result<WorkerProgress, AgentError> {
        self.call(|worker, _| worker.freeze()).await?
    }

    /// Continues in the present generation until `until` operations, counted from the job's start, are
    /// begun and finished. Returns the worker's progress then, or earlier if another request interrupts it.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn proceed(&self, until: u64) -> Result<WorkerProgress, AgentError> {
        let progress = self.request(move |worker, now, reply| worker.proceed(now, until, reply))?;
        progress.await.map_err(|_| self.end_error())?
    }

    /// Returns the results of the `slices` that the worker still has.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn finished(&self, slices: Vec<Seq>) -> Result<Vec<FinishedSlice>, AgentError> {
        self.call(move |worker, _| worker.finished(&slices)).await?
    }

    /// Changes to another generation of the job, and continues if the worker was frozen. If the worker is
    /// already in that generation, it only continues.
    ///
    /// # Errors
    /// [`AgentError::Change`], [`AgentError::OtherRole`], [`AgentError::Config`] or [`AgentError::Frame`] if the
    /// configuration is invalid; the worker then stays in the old generation. [`AgentError::Ended`] if the agent has
    /// ended.
    pub async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        let config = config.clone();
        self.call(move |worker, now| worker.change(now, &config)).await?
    }

    /// Detaches the worker; the job continues without it. A detached worker sends nothing and accepts
    /// nothing. All its operations, including those under way, end with `detached`. The state ends when the worker
    /// [changes](Self::change) to a generation of which it is a member.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn detach(&self, detached: Detached) -> Result<(), AgentError> {
        self.call(|worker, now| worker.detach(now, detached)).await?
    }

    /// Returns the worker's present situation.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub async fn situation(&self) -> Result<Situation, AgentError> {
        self.call(|worker, now| worker.situation(now)).await
    }

    /// Returns the progress that the agent regularly reports to the controller, without the job's name.
    pub(crate) async fn progress(&self) -> Result<v1::JobProgress, AgentError> {
        self.call(|worker, now| worker.progress(now)).await
    }

    /// Returns the present values of the counters.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<WorkerStats>, AgentError> {
        self.call_blocking(|driver| driver.stats())
    }
}
