//! A host's membership in a job, over the controller's API.

mod event;
mod processes;
mod speaker;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_transport::Remote;

use crate::error::JoinError;
pub use event::JobEvent;
pub(crate) use speaker::Speaker;
use stream::EventStream;

/// Events that may wait until the member reads them.
const EVENTS: usize = 4;

/// A host that joins a job, and the terms on which it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobMember {
    /// The job's name.
    pub job: String,
    /// The job's token, which the job's creator received from the controller.
    pub token: Vec<u8>,
    /// This host's name in the topology.
    pub host: String,
    /// The role in which the host joins.
    pub role: MemberRole,
    /// True if the process accepts members that join later. The host may then also join a running job.
    pub elastic: bool,
    /// True if the host may begin a new run of a job whose last run is over.
    pub new_run: bool,
    /// The number of the host's training processes in the job, at least 1.
    pub processes: u32,
}

impl JobMember {
    /// Describes a worker that is not elastic. It must join before the job starts.
    pub fn worker(job: &str, token: &[u8], host: &str) -> Self {
        let (job, token, host) = (job.to_owned(), token.to_vec(), host.to_owned());
        Self { job, token, host, role: MemberRole::Worker, elastic: false, new_run: false, processes: 1 }
    }

    /// Describes the aggregation server.
    pub fn server(job: &str, token: &[u8], host: &str) -> Self {
        Self { role: MemberRole::Server, ..Self::worker(job, token, host) }
    }
}

/// The role of a host in a job. A host may have both roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// The host contributes gradients and receives results.
    Worker,
    /// The host is the aggregation server at the root of the tree.
    Server,
}

impl From<MemberRole> for v1::MemberRole {
    fn from(role: MemberRole) -> Self {
        match role {
            MemberRole::Worker => Self::Worker,
            MemberRole::Server => Self::Server,
        }
    }
}

/// A host's membership in a job. If it is dropped before the job is over, the controller detects that
/// the host has gone. If the connection breaks, the membership joins again and retries without a time limit.
#[derive(Debug)]
pub struct Membership {
    speaker: Speaker,
    events: mpsc::Receiver<Result<JobEvent, JoinError>>,
    held: Arc<AtomicU32>,
    leaves: Arc<AtomicBool>,
    unreachable_since: watch::Receiver<Option<Instant>>,
    work: AbortHandle,
}

impl Membership {
    /// Joins a job at the controller. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`JoinError::Connect`], or [`JoinError::Refused`] with the controller's reason.
    pub async fn join(controller: &Remote, member: JobMember) -> Result<Self, JoinError> {
        let speaker = Speaker::connect(controller, member).await?;
        let Speaker { client, member } = speaker.clone();
        let (held, leaves) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let mut stream = EventStream::new(client, member, Arc::clone(&held), Arc::clone(&leaves));
        stream.join().await.map_err(JoinError::refused("let this host join"))?;
        let (sender, events) = mpsc::channel(EVENTS);
        let (unreachable, unreachable_since) = watch::channel(None);
        let work = tokio::spawn(stream.forward(sender, unreachable)).abort_handle();
        Ok(Self { speaker, events, held, leaves, unreachable_since, work })
    }

    /// Returns the job's name.
    pub fn job(&self) -> &str {
        &self.speaker.member.job
    }

    /// Waits for the next event. Broken connections do not interrupt the wait. The last event is
    /// [`JobEvent::Removed`], [`JobEvent::Relieved`], [`JobEvent::Failed`] or [`JobEvent::Ended`]; no event follows it.
    ///
    /// # Errors
    /// [`JoinError::BadConfig`] for an invalid configuration; [`JoinError::UnknownEvent`] for an event that this
    /// version does not know; [`JoinError::Refused`] if the controller does not let this host join again;
    /// [`JoinError::Over`] after an error or after the last event.
    pub async fn next_event(&mut self) -> Result<JobEvent, JoinError> {
        self.events.recv().await.unwrap_or(Err(JoinError::Over))
    }

    /// Notes that this host's agent is in this generation. If the host joins again, it reports the
    /// generation to the controller.
    pub fn holds(&self, generation: u32) {
        self.held.store(generation, Ordering::Release);
    }

    /// Returns a receiver of the time since which the controller has been unreachable; `None` while it is
    /// reachable.
    pub fn unreachable_since(&self) -> watch::Receiver<Option<Instant>> {
        self.unreachable_since.clone()
    }

    /// Returns a speaker, which sends reports and answers while another task waits for events.
    pub(crate) fn speaker(&self) -> Speaker {
        self.speaker.clone()
    }

    /// Leaves the job. The job continues without this host, or fails if it is rigid. If the controller does
    /// not answer within two seconds, `leave` returns an error, and the controller will detect that the host has gone.
    ///
    /// # Errors
    /// [`JoinError::Refused`] if the controller refuses, or does not answer in time.
    pub async fn leave(self, reason: &str) -> Result<(), JoinError> {
        self.part(&reason.to_owned().into()).await
    }

    /// Leaves the job with the reason in `parting`; see [`leave`](Self::leave).
    pub(crate) async fn part(self, parting: &Parting) -> Result<(), JoinError> {
        self.leaves.store(true, Ordering::Release);
        self.speaker.clone().leave(parting).await
    }
}

/// The terms on which a host leaves a job.
#[derive(Debug, Clone)]
pub(crate) struct Parting {
    /// The reason, in a few words.
    pub(crate) reason: String,
    /// True if the training has reached its end.
    at_end: bool,
}

impl Parting {
    /// Returns the terms of a departure at the end of the training.
    pub(crate) fn at_end() -> Self {
        Self { reason: "its training is at its end".to_owned(), at_end: true }
    }
}

impl From<String> for Parting {
    fn from(reason: String) -> Self {
        Self { reason, at_end: false }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.work.abort();
    }
}
