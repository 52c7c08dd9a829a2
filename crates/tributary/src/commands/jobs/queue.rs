//! Waits for a queued job. Such a job waits for slots, or for failed parts of the fabric to recover.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};
use tonic::Status;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_cli::output;

use crate::options::remote::refused;

/// The interval between two requests for the job's state.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a job leaves the queue, and returns its plan. Prints the reasons for the wait on
/// standard error.
///
/// # Errors
/// The job has failed or does not exist any more. If it is still queued after `patience`, this function
/// ends it and returns an error. `left` makes the error for a controller that has become unreachable
/// meanwhile.
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
        // Names are reused, so only the last job with this name can be alive.
        let job = jobs.into_iter().rfind(|job| job.name == name);
        let job = job.with_context(|| format!("job {name} does not exist any longer"))?;
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
            bail!("job {name} was ended after a wait of {} s: it needs {waits}", patience.as_secs());
        }
        if waits != said {
            output::complain(format_args!("job {name} waits for {waits}"));
            said = waits;
        }
        sleep(LOOK_INTERVAL).await;
    }
}
