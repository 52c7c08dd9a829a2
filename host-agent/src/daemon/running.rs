//! The worker of a job, which runs all-reduces for the processes of this host.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tributary_api::{JobConfig, Role, v1};
use tributary_link::FramePort;
use tributary_protocol::{AllReduce, Bounds, CollectiveError, Timers};
use tributary_wire::{Rank, SliceWidth};

use super::collectives::Collectives;
use super::training_progress::{End, StepPart, TrainingProgress};
use crate::error::AgentError;
use crate::membership::{Membership, Speaker};
use crate::worker::{Completion, KeptAlive, Outcome, Terms, WorkerAgent};

/// The membership of this host in a job that has started.
pub(crate) struct Running {
    pub(crate) agent: Arc<WorkerAgent>,
    pub(crate) rank: Rank,
    pub(crate) width: SliceWidth,
    pub(crate) window: u32,
    /// The number of switches that added the job's gradients when the worker joined.
    pub(crate) switches: u32,
    pub(crate) collectives: Collectives,
    job: String,
    speaker: Speaker,
    away: watch::Receiver<Option<Instant>>,
    training_progress: Mutex<TrainingProgress>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("job", &self.job).field("rank", &self.rank).finish()
    }
}

impl Running {
    pub(super) fn start(
        config: &JobConfig,
        timers: Timers,
        port: Box<dyn FramePort>,
        membership: &Membership,
    ) -> Result<Self, AgentError> {
        let job = config.name.clone();
        let Role::Worker { rank, .. } = config.role else {
            return Err(AgentError::OtherRole { job, started_as: "worker" });
        };
        Ok(Self {
            agent: Arc::new(WorkerAgent::start(config, timers, port)?),
            rank,
            width: config.width,
            window: config.window,
            switches: config.switches,
            collectives: Collectives::default(),
            job,
            speaker: membership.speaker(),
            away: membership.away(),
            training_progress: Mutex::default(),
        })
    }

    /// Starts an all-reduce after all earlier all-reduces, and returns a future of its outcome. `bounds`
    /// are the bounds of its elements, if they are known. `part` is its part in the training. `held` is dropped with
    /// the operation's data. The future must run to its end even if its caller stops waiting, because it reports a
    /// wrong sum to the controller, which then fails the job.
    pub(super) fn start_reduce(
        self: &Arc<Self>,
        operation: AllReduce,
        bounds: Option<Bounds>,
        part: StepPart,
        terms: Terms,
        held: KeptAlive,
    ) -> impl Future<Output = Result<Completion, AgentError>> + Send + 'static + use<> {
        self.training_progress.lock().begin(Instant::now());
        let started = self.agent.start_reduce(operation, bounds, terms, held);
        let running = Arc::clone(self);
        async move {
            let reduction = match started {
                Ok(result) => result.await,
                Err(error) => Err(error),
            };
            let end = match &reduction {
                Ok(Completion { outcome: Outcome::Reduced(_), .. }) => End::Reduced,
                Ok(Completion { outcome: Outcome::Regroup(_) | Outcome::Detached(_), .. }) => End::Told,
                Err(_) => End::Failed,
            };
            running.training_progress.lock().end(Instant::now(), part, end);
            match reduction {
                Ok(reduction) => Ok(reduction),
                Err(error) => Err(running.explain(error).await),
            }
        }
    }

    /// Adds the controller's information about the other members to an error.
    async fn explain(&self, error: AgentError) -> AgentError {
        match error {
            AgentError::Deadline { limit, wait, error, .. } => {
                let (absent, setback) = self.speaker.in_the_way().await;
                AgentError::Deadline { limit, wait, error, absent, setback }
            }
            error => self.dispute(error).await,
        }
    }

    /// If the error is a wrong sum, reports this member's contribution to the controller, which compares it
    /// with the other members' contributions and fails the job.
    async fn dispute(&self, error: AgentError) -> AgentError {
        let AgentError::Collective(error) = error else { return error };
        let CollectiveError::WrongSum { tensor, operation, .. } = &error else { return error.into() };
        let given = v1::GivenOperation {
            first_seq: operation.0,
            tensor: tensor.name.clone(),
            elements: tensor.len as u64,
            element_type: tensor.element_type.to_string(),
        };
        match self.speaker.report_wrong_sum(&error.to_string(), given).await {
            Ok(verdict) if !verdict.is_empty() => {
                AgentError::Disputed { tensor: tensor.name.clone(), verdict }
            }
            Ok(_) => error.into(),
            Err(problem) => {
                tracing::warn!(job = self.job, %problem, "cannot report a fault");
                AgentError::NotCompared { error: Box::new(error), problem }
            }
        }
    }

    /// Returns the time at which the all-reduce under way began; `None` if no all-reduce is under way.
    pub(crate) fn under_way(&self) -> Option<Instant> {
        self.training_progress.lock().under_way()
    }

    /// Returns the time for which the controller has been unreachable; `None` if it is reachable.
    pub(crate) fn away(&self) -> Option<Duration> {
        self.away.borrow().map(|since| since.elapsed())
    }

    /// Returns true if other members have left the job.
    pub(crate) async fn has_lost_others(&self) -> bool {
        self.agent.situation().await.is_ok_and(|situation| !situation.members.lost.is_empty())
    }

    /// Returns true if this host has abandoned an all-reduce that other members may still finish.
    pub(super) async fn has_given_up(&self) -> bool {
        // An agent that has ended no longer contributes to an all-reduce.
        self.agent.situation().await.is_ok_and(|situation| situation.has_given_up)
    }

    /// Returns the progress that the agent regularly reports to the controller.
    pub(crate) async fn progress(&self) -> v1::JobProgress {
        let (progress, waits) = {
            let training_progress = self.training_progress.lock();
            (training_progress.progress(), training_progress.under_way().is_some())
        };
        let wait = match waits {
            true => self.agent.situation().await.ok().and_then(|situation| situation.wait),
            false => None,
        };
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        v1::JobProgress {
            job: self.job.clone(),
            stalled_milliseconds: wait.map_or(0, |wait| milliseconds(wait.silent)),
            stalled_in_generation_milliseconds: wait.map_or(0, |wait| milliseconds(wait.unmoved)),
            ..progress
        }
    }
}
