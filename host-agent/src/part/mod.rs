//! A host's part in a job, as a worker or a server, from its start to its end.

mod answers;
mod serve;
mod servers;

use std::future::{self, Future};
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_api::JobConfig;
use tributary_link::FramePort;

use crate::error::{AgentError, JobError};
use crate::membership::{JobEvent, Membership, Parting};
use crate::server::ServerAgent;
use crate::worker::{Detached, WorkerAgent};
use answers::answer;
pub use serve::serve_job;
pub use servers::{Reserved, Served, Servers};

/// A function that opens a port to this host's switch. It is called once for each stripe of a job.
pub type OpenPort = Arc<dyn Fn() -> Result<Box<dyn FramePort>, AgentError> + Send + Sync>;

/// Returns a function that opens `port` for the first job only. An end of an in-process link exists
/// only once.
pub fn open_once(port: impl FramePort + 'static) -> OpenPort {
    let port = Mutex::new(Some(Box::new(port) as Box<dyn FramePort>));
    Arc::new(move || {
        let taken =
            || AgentError::System { step: "open a port twice", reason: ErrorKind::ResourceBusy.into() };
        port.lock().take().ok_or_else(taken)
    })
}

/// Opens a port for each stripe of a job.
pub(crate) fn open_ports(
    open_port: &OpenPort,
    config: &JobConfig,
) -> Result<Vec<Box<dyn FramePort>>, AgentError> {
    config.start_seqs.iter().map(|_| open_port()).collect()
}

/// The agent of a host's part in a job.
#[derive(Clone)]
pub(crate) enum JobAgent {
    /// The agent of a worker.
    Worker(Arc<WorkerAgent>),
    /// The agent of the aggregation server.
    Server(Arc<ServerAgent>),
}

impl JobAgent {
    /// Ends the agent; see [`WorkerAgent::end`].
    pub(crate) fn end(&self, reason: &str) {
        match self {
            Self::Worker(agent) => agent.end(reason),
            Self::Server(agent) => agent.end(reason),
        }
    }

    async fn ended(&self) -> AgentError {
        match self {
            Self::Worker(agent) => agent.ended().await,
            Self::Server(agent) => agent.ended().await,
        }
    }

    async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        match self {
            Self::Worker(agent) => agent.change(config).await,
            Self::Server(agent) => agent.change(config).await,
        }
    }
}

/// Waits until the job starts for this host, and returns the configuration.
pub(crate) async fn wait_for_start(
    membership: &mut Membership,
    job: &str,
) -> Result<Box<JobConfig>, JobError> {
    match membership.next_event().await? {
        // If the connection broke before the start event arrived, the controller sends a change instead.
        JobEvent::Start(config) | JobEvent::Change(config) => Ok(config),
        JobEvent::Failed { reason, wrong_sum } => {
            Err(JobError::Failed { job: job.into(), reason, wrong_sum })
        }
        JobEvent::Removed { reason } => Err(JobError::Removed { job: job.into(), reason }),
        JobEvent::Ended | JobEvent::Relieved => Err(JobError::NeverStarted { job: job.into() }),
        JobEvent::Prepare { .. }
        | JobEvent::Proceed { .. }
        | JobEvent::Provide { .. }
        | JobEvent::Detached(_) => {
            Err(JobError::OutOfPlace { job: job.into(), event: "something else than how to start" })
        }
    }
}

/// Leaves the job because the agent cannot start or continue. The other members continue without this
/// host.
pub(crate) async fn give_up(membership: Membership, error: AgentError) -> JobError {
    if let Err(error) = membership.leave(&error.to_string()).await {
        tracing::warn!(%error, "cannot leave: the controller will find this host gone");
    }
    error.into()
}

/// Stays a member until the job is over, the agent has ended, or `leave` yields a reason to leave.
///
/// # Errors
/// [`JobError::Left`] if this host has left the job; another [`JobError`] if its part is over before the job's end.
pub(crate) async fn see_through(
    mut membership: Membership,
    agent: &JobAgent,
    generation: u32,
    leave: impl Future<Output = impl Into<Parting>>,
) -> Result<(), JobError> {
    let over = tokio::select! {
        over = follow(&mut membership, agent, generation) => over,
        parting = leave => {
            let (job, parting) = (membership.job().to_owned(), parting.into());
            let reason = parting.reason.clone();
            tracing::info!(job, reason, "leaving");
            if let Err(error) = membership.part(&parting).await {
                tracing::debug!(job, %error, "the job is over already, or the controller does not hear");
            }
            return Err(JobError::Left { job, reason });
        }
    };
    match over {
        Err(JobError::Agent(error)) => Err(give_up(membership, error).await),
        over => over,
    }
}

/// Carries out the controller's orders on an agent that was started in `generation`. Returns when the
/// job has ended or when another host serves it.
///
/// # Errors
/// [`JobError::Failed`], [`JobError::Removed`] or [`JobError::Join`]; [`JobError::Agent`] if the agent cannot continue.
async fn follow(membership: &mut Membership, agent: &JobAgent, generation: u32) -> Result<(), JobError> {
    membership.holds(generation);
    let mut follower = Follower { job: membership.job().to_owned(), agent, generation };
    // Only one answer is in progress at a time, because the next question makes it obsolete.
    let mut answering: Answering<'_> = Box::pin(future::pending());
    loop {
        tokio::select! {
            event = membership.next_event() => match follower.take(event?).await? {
                Next::Over => return Ok(()),
                Next::Changed(generation) => {
                    membership.holds(generation);
                    answering = Box::pin(answers::changed(membership.speaker(), generation));
                }
                Next::Question(ask) => answering = Box::pin(answer(membership.speaker(), agent, ask)),
                Next::Nothing => {}
            },
            () = &mut answering => answering = Box::pin(future::pending()),
            error = agent.ended() => return Err(error.into()),
        }
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The step that follows an event.
enum Next {
    /// The host's part in the job has ended without an error.
    Over,
    /// The agent is in this generation. The member must confirm that to the controller.
    Changed(u32),
    /// The agent must answer a question of the controller.
    Question(answers::Ask),
    Nothing,
}

/// Applies the events of a membership to a running agent.
struct Follower<'a> {
    job: String,
    agent: &'a JobAgent,
    generation: u32,
}

impl Follower<'_> {
    async fn take(&mut self, event: JobEvent) -> Result<Next, JobError> {
        let job = || self.job.clone();
        Ok(match event {
            JobEvent::Start(config) | JobEvent::Change(config) => self.change(&config).await?,
            JobEvent::Prepare { generation } => self.question(generation, answers::Question::Prepare),
            JobEvent::Proceed { generation, until } => {
                self.question(generation, answers::Question::Proceed { until })
            }
            JobEvent::Provide { generation, seqs } => {
                self.question(generation, answers::Question::Provide { seqs })
            }
            JobEvent::Detached(detached) => self.detach(detached).await?,
            JobEvent::Ended | JobEvent::Relieved => Next::Over,
            JobEvent::Failed { reason, wrong_sum } => {
                return Err(JobError::Failed { job: job(), reason, wrong_sum });
            }
            JobEvent::Removed { reason } => return Err(JobError::Removed { job: job(), reason }),
        })
    }

    async fn detach(&self, detached: Detached) -> Result<Next, AgentError> {
        let Detached { generation, reason, .. } = &detached;
        let JobAgent::Worker(worker) = self.agent else {
            tracing::warn!(
                job = self.job,
                generation,
                "the controller detaches a server: only workers can be"
            );
            return Ok(Next::Nothing);
        };
        if *generation <= self.generation {
            tracing::info!(job = self.job, generation, "told of a generation that is over");
            return Ok(Next::Nothing);
        }
        tracing::warn!(job = self.job, generation, reason, "the job goes on without this host for now");
        worker.detach(detached).await?;
        Ok(Next::Nothing)
    }

    /// Changes to another generation. The controller repeats the order for the present generation if it
    /// has not received the confirmation; the agent then confirms again. Orders for older generations are ignored.
    async fn change(&mut self, config: &JobConfig) -> Result<Next, AgentError> {
        if config.generation < self.generation {
            tracing::info!(job = self.job, config.generation, self.generation, "an old generation is over");
            return Ok(Next::Nothing);
        }
        self.agent.change(config).await?;
        if config.generation > self.generation {
            self.generation = config.generation;
            let workers = config.ranks.len();
            tracing::info!(job = self.job, config.generation, workers, "changed over to a new generation");
        }
        Ok(Next::Changed(self.generation))
    }

    fn question(&self, generation: u32, question: answers::Question) -> Next {
        if generation <= self.generation {
            tracing::info!(job = self.job, generation, "asked about a generation that is over");
            return Next::Nothing;
        }
        Next::Question(answers::Ask { generation, question })
    }
}

/// Returns the reason with which the agent ends when its job is over.
pub(crate) fn reason(end: &Result<(), JobError>) -> String {
    match end {
        Ok(()) => "the job has ended".into(),
        Err(error) => error.to_string(),
    }
}
