//! The stream of a job's events. It reconnects when the connection breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;

use super::{JobEvent, JobMember};
use crate::backoff::Backoff;
use crate::error::JoinError;

type Events = mpsc::Sender<Result<JobEvent, JoinError>>;

/// One member's stream of events.
pub(super) struct EventStream {
    client: ControllerClient<Channel>,
    member: JobMember,
    /// The generation of the host's agent; 0 if no agent has started.
    held: Arc<AtomicU32>,
    /// True if the host is leaving the job; the controller then ends the stream.
    leaves: Arc<AtomicBool>,
    stream: Option<Streaming<v1::JobEvent>>,
}

impl EventStream {
    pub(super) fn new(
        client: ControllerClient<Channel>,
        member: JobMember,
        held: Arc<AtomicU32>,
        leaves: Arc<AtomicBool>,
    ) -> Self {
        Self { client, member, held, leaves, stream: None }
    }

    /// Joins, or joins again and reports the agent's generation.
    pub(super) async fn join(&mut self) -> Result<(), Status> {
        let JobMember { job, token, host, role, elastic, new_run, processes } = self.member.clone();
        let role = v1::MemberRole::from(role).into();
        let resume_generation = self.held.load(Ordering::Acquire);
        let request =
            v1::JoinRequest { job, token, host, role, elastic, resume_generation, new_run, processes };
        self.stream = Some(self.client.join(request).await?.into_inner());
        Ok(())
    }

    /// Forwards events until the last event, until the receiver is dropped, or until the host has left.
    /// `unreachable` holds the time since which the controller has not answered; `None` if it answers.
    pub(super) async fn forward(mut self, events: Events, unreachable: watch::Sender<Option<Instant>>) {
        loop {
            match self.next().await {
                Ok(event) => {
                    let last = event.as_ref().map_or(true, JobEvent::is_last);
                    if events.send(event).await.is_err() || last {
                        return;
                    }
                }
                Err(_) if self.leaves.load(Ordering::Acquire) => return,
                Err(status) => {
                    unreachable.send_replace(Some(Instant::now()));
                    if let Err(refused) = self.join_again(&status).await {
                        let refused = JoinError::refused("let this host join again")(refused);
                        // The receiver may already be dropped.
                        let _ = events.send(Err(refused)).await;
                        return;
                    }
                    unreachable.send_replace(None);
                }
            }
        }
    }

    /// Returns the next event, or the error that makes the event invalid.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    async fn next(&mut self) -> Result<Result<JobEvent, JoinError>, Status> {
        let closed = || Status::unavailable("the controller has closed the stream of events");
        let message = match &mut self.stream {
            Some(stream) => stream.message().await?,
            None => None,
        };
        let event = message.ok_or_else(closed)?.event;
        Ok(event
            .ok_or(JoinError::UnknownEvent)
            .and_then(|event| event.try_into().map_err(JoinError::BadConfig)))
    }

    /// Joins again, and retries until the controller answers.
    ///
    /// # Errors
    /// Returns an error if the controller answers but does not accept this host any more.
    async fn join_again(&mut self, broken: &Status) -> Result<(), Status> {
        let JobMember { job, .. } = &self.member;
        let (job, generation) = (job.clone(), self.held.load(Ordering::Acquire));
        tracing::warn!(job, generation, reason = words(broken), "lost the controller: going on without it");
        self.stream = None;
        let mut backoff = Backoff::default();
        let mut said = String::new();
        loop {
            backoff.wait().await;
            match self.join().await {
                Ok(()) => {
                    tracing::info!(job, generation, "the controller is back");
                    return Ok(());
                }
                Err(status) if is_final(status.code()) => return Err(status),
                Err(status) => {
                    let reason = words(&status);
                    // A reason is logged once and not at every attempt.
                    if reason != said {
                        tracing::info!(job, reason, "the controller is still unreachable");
                        said = reason;
                    }
                }
            }
        }
    }
}

/// Returns true if the controller has decided that the host is not a member of a live job.
pub(super) fn is_final(code: Code) -> bool {
    matches!(code, Code::NotFound | Code::PermissionDenied | Code::FailedPrecondition)
}

/// Returns the innermost reason of an error, because tonic's own text is only "transport error".
fn words(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(cause) => tributary_transport::innermost(cause),
        None => status.message().to_owned(),
    }
}
