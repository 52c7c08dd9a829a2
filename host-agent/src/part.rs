//! A host's part in a job, in either role, from its start to its end.

use std::future::Future;
use std::sync::Arc;

use tributary_api::JobConfig;
use tributary_link::FramePort;
use tributary_transport::Remote;

use crate::error::{AgentError, JobError};
use crate::join::{JobEvent, JobMember, Membership};
use crate::server::ServerAgent;

/// Opens the port that leads to this host's switch, anew for each job.
pub type OpenPort = Arc<dyn Fn() -> Result<Box<dyn FramePort>, AgentError> + Send + Sync>;

/// Serves one job until it is over, or until `leave` says why this host goes before: then the job fails.
/// `start` is [`ServerAgent::start`] or [`ServerAgent::start_reading`], and its caller's chance to keep the
/// agent; to keep it alive is to keep its port.
///
/// # Errors
/// [`JobError`]: the job could not be joined, or it failed.
pub async fn serve_job(
    controller: &Remote,
    member: JobMember,
    open_port: &OpenPort,
    leave: impl Future<Output = String>,
    start: impl FnOnce(&JobConfig, Box<dyn FramePort>) -> Result<Arc<ServerAgent>, AgentError>,
) -> Result<(), JobError> {
    let job = member.job.clone();
    let mut leave = std::pin::pin!(leave);
    let joining = async {
        let mut membership = Membership::join(controller, member).await?;
        tracing::info!(job, "joined; waiting for the other members");
        let config = wait_for_start(&mut membership, &job).await?;
        Ok::<_, JobError>((membership, config))
    };
    let (membership, config) = tokio::select! {
        joined = joining => joined?,
        // Its connection breaks by this, and so it is left.
        _ = &mut leave => return Ok(()),
    };
    let server = match open_port().and_then(|port| start(&config, port)) {
        Ok(server) => server,
        Err(error) => return Err(give_up(membership, error).await),
    };
    tracing::info!(job, workers = config.ranks.len(), "the job has started");
    let end = see_through(membership, &job, server.ended(), leave).await;
    server.end(&reason(&end));
    end
}

/// Waits until everyone has joined.
pub(crate) async fn wait_for_start(
    membership: &mut Membership,
    job: &str,
) -> Result<Box<JobConfig>, JobError> {
    match membership.next_event().await? {
        JobEvent::Start(config) => Ok(config),
        JobEvent::Failed { reason } => Err(JobError::Failed { job: job.into(), reason }),
        JobEvent::Ended => Err(JobError::NeverStarted { job: job.into() }),
    }
}

/// The agent cannot start: the others are told so.
pub(crate) async fn give_up(membership: Membership, error: AgentError) -> JobError {
    report(&membership, &error.to_string()).await;
    error.into()
}

/// Stays a member until the job is over, the agent has `ended`, or `leave` gives a reason to go.
///
/// # Errors
/// [`JobError`] when the job is over before its end; leaving is none.
pub(crate) async fn see_through(
    mut membership: Membership,
    job: &str,
    ended: impl Future<Output = AgentError>,
    leave: impl Future<Output = String>,
) -> Result<(), JobError> {
    tokio::select! {
        event = membership.next_event() => match event? {
            JobEvent::Ended => Ok(()),
            JobEvent::Failed { reason } => Err(JobError::Failed { job: job.into(), reason }),
            JobEvent::Start(_) => Err(JobError::StartedTwice { job: job.into() }),
        },
        error = ended => Err(give_up(membership, error).await),
        reason = leave => {
            tracing::info!(job, reason, "leaving");
            if let Err(error) = membership.leave(&reason).await {
                tracing::debug!(job, %error, "the job is over already");
            }
            Ok(())
        }
    }
}

/// Tells the controller that something is wrong here.
async fn report(membership: &Membership, what: &str) {
    if let Err(error) = membership.speaker().report_fault(what).await {
        tracing::warn!(%error, "cannot report a fault");
    }
}

/// Why an agent is ended when its job is over.
pub(crate) fn reason(end: &Result<(), JobError>) -> String {
    match end {
        Ok(()) => "the job has ended".into(),
        Err(error) => error.to_string(),
    }
}
