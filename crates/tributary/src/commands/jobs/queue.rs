//! A queued job: it waits for slots, or for a part of the fabric to come back.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};
use tonic::Status;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_cli::output;

use crate::options::remote::refused;

/// The interval of polls of the queued job.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a job leaves the queue, reports on stderr what it waits for, and returns its plan.
///
/// # Errors
/// The job has failed, or is gone; or it still waits after `patience`: then it is ended. `left` makes the error for a
/// controller that has gone meanwhile.
pub(crate) async fn wait(
    client: &mut ControllerClient<Channel>,
    (name, token): (&str, &[u8]),
    patience: Option<Duration>,
    left: impl Fn(Status) -> anyhow::Error,
) -> Result<Option<v1::PlanSummary>> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut said = String::new();
    loop {
        let jobs = client.list_jobs(v1::ListJobsRequest {}).await.map_err(&left)?.into_inner().jobs;
        // Names are reused: only the last job of that name can be alive.
        let job = jobs.into_iter().rfind(|job| job.name == name);
        let job = job.with_context(|| format!("job {name} is gone"))?;
        match job.state() {
            v1::JobState::Queued => {}
            v1::JobState::Failed => bail!("job {name} has failed: {}", job.reason),
            _ => return Ok(job.plan),
        }
        let waits = job.waiting_for.first().cloned().unwrap_or_default();
        if let (Some(patience), Some(deadline)) = (patience, deadline)
            && Instant::now() >= deadline
        {
            let end = v1::EndJobRequest { job: name.to_owned(), token: token.to_vec() };
            client.end_job(end).await.map_err(refused)?;
            bail!("job {name} waited {} s, and was ended: it needs {waits}", patience.as_secs());
        }
        if waits != said {
            output::complain(format_args!("job {name} waits for {waits}"));
            said = waits;
        }
        sleep(LOOK_INTERVAL).await;
    }
}
