//! Runs of a job. A training whose launcher has restarted all of its processes continues with its job's
//! next run.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tributary_api::v1::EventKind;

use super::start;
use crate::jobs::{Job, JobError, Joining};
use crate::manager::{CreateFailure, Manager, MemberEvents};

/// Time that the first process of the next run waits for the processes of the last run to end.
/// Launchers such as torchrun kill all processes of a run before they start the next run. The hosts detect the end of
/// these processes within milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reasons why a host cannot join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinFailure {
    #[error(transparent)]
    Job(#[from] JobError),
    /// The job cannot be created again for its next run.
    #[error(transparent)]
    Create(#[from] CreateFailure),
}

/// Lets a host's process join a job.
/// If the job's last run is over and `joining` allows a new run, creates the next run first.
pub(crate) async fn join(
    manager: &Arc<Manager>,
    (name, token): (&str, &[u8]),
    joining: &Joining<'_>,
) -> Result<MemberEvents, JoinFailure> {
    if !joining.new_run {
        return Ok(manager.join(name, token, joining)?);
    }
    let may_run_again = |key| manager.state().jobs.get(key).is_some_and(Job::may_run_again);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let key = manager.state().jobs.authorize(name, token)?;
        if let Some(next) = manager.create_again(key).await? {
            start(manager, next);
            tracing::info!(job = name, host = joining.host, "a restarted process begins the job's next run");
            manager.events.of_job(EventKind::JobCreated, name, "created again, for its next run");
        }
        let Some(mut look) = manager.look_of(key) else { continue };
        match manager.join(name, token, joining) {
            // An error means that the job is gone. The next iteration of the loop then reports that.
            Err(JobError::Closed { .. } | JobError::OtherThanStarted { .. }) if Instant::now() < deadline => {
                let _ = timeout_at(deadline, look.changed()).await;
            }
            // The last run ended after `create_again` was called.
            Err(JobError::Over { .. }) if may_run_again(key) => {}
            joined => return Ok(joined?),
        }
    }
}
