//! The lab's job. It is created through the controller's API, from the controller's namespace.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime;
use tokio::time::timeout;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_lab::{CONTROLLER, Lab};
use tributary_transport::Remote;

use super::record::{JobOptions, Record};
use crate::commands::jobs::{queue, write_token};
use crate::options::remote::{self, read_token, refused};

/// Time that the controller may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a queued job waits for failed parts to recover.
///
/// A repaired cable carries frames before the controller detects the repair.
const REVIVAL: Duration = Duration::from_secs(10);

/// Creates the job. The controller requests the daemon of the server's host to serve it.
pub(super) fn create(lab: &Lab, record: &Record) -> Result<()> {
    let JobOptions { aggregation, downlink, window, threads, theta, confidential } =
        record.job_options.clone();
    let request = v1::CreateJobRequest {
        name: record.job.clone(),
        workers: record.workers.iter().map(|worker| worker.host.clone()).collect(),
        server: record.server.clone(),
        aggregation: v1::Aggregation::from(aggregation).into(),
        downlink: v1::Downlink::from(downlink).into(),
        window: window.unwrap_or_default(),
        gradient_bytes: 0,
        rigid: false,
        join_deadline_milliseconds: 0,
        wait: true,
        degraded: if theta.is_some() { v1::Degraded::Auto } else { v1::Degraded::Off }.into(),
        theta,
        server_reads: false,
        confidential,
        processes_per_host: 0,
        threads: threads.unwrap_or_default(),
    };
    let created = ask(lab, record, async |mut client| {
        let created = client.create_job(request).await.map_err(refused)?.into_inner();
        if created.queued {
            queue::wait(&mut client, (&record.job, &created.token), Some(REVIVAL), refused).await?;
        }
        Ok(created)
    })?;
    write_token(&record.token_file, &created.token)
        .with_context(|| format!("cannot write the token to {}", record.token_file.display()))
}

/// Creates the job again if it has ended. A failed command, for example, makes the job fail.
pub fn renew(lab: &Lab, record: &Record) -> Result<()> {
    if is_alive(lab, record)? { Ok(()) } else { create(lab, record) }
}

/// Ends the job and creates it again with this θ. Without θ, the job takes no action on slow processes.
///
/// # Errors
/// The controller does not answer, or refuses.
pub fn restart(lab: &Lab, record: &mut Record, theta: Option<f64>) -> Result<()> {
    end(lab, record)?;
    record.job_options.theta = theta;
    create(lab, record)
}

/// Returns the controller's state of the job's processes, and its actions on slow processes.
///
/// # Errors
/// The controller does not answer, or refuses.
pub fn explain(lab: &Lab, record: &Record) -> Result<v1::ExplainJobResponse> {
    let request = v1::ExplainJobRequest { job: record.job.clone() };
    let explained = ask(lab, record, async |mut client| client.explain_job(request).await.map_err(refused))?;
    Ok(explained.into_inner())
}

/// Returns the controller's list of switches.
///
/// # Errors
/// The controller does not answer, or refuses.
pub fn switches(lab: &Lab, record: &Record) -> Result<Vec<v1::Switch>> {
    ask(lab, record, async |mut client| tributary_cli::switches::list(&mut client).await)
}

/// Returns the job's last schedule, and the profile from which it was made.
///
/// # Errors
/// The controller does not answer, or has no schedule.
pub fn schedule(lab: &Lab, record: &Record) -> Result<v1::GetScheduleResponse> {
    let request = v1::GetScheduleRequest { job: record.job.clone() };
    let told = ask(lab, record, async |mut client| client.get_schedule(request).await.map_err(refused))?;
    Ok(told.into_inner())
}

/// Returns true if the job has not ended.
///
/// # Errors
/// The controller does not answer.
pub fn is_alive(lab: &Lab, record: &Record) -> Result<bool> {
    let alive =
        [v1::JobState::Queued, v1::JobState::Created, v1::JobState::Installing, v1::JobState::Running];
    Ok(state(lab, record)?.is_some_and(|state| alive.contains(&state)))
}

/// Returns the job's state; `None` if the job does not exist.
fn state(lab: &Lab, record: &Record) -> Result<Option<v1::JobState>> {
    let request = v1::ListJobsRequest {};
    let listed = ask(lab, record, async |mut client| client.list_jobs(request).await.map_err(refused))?;
    // Names are reused, so only the last job with this name can be alive.
    let job = listed.into_inner().jobs.into_iter().rfind(|job| job.name == record.job);
    Ok(job.map(|job| job.state()))
}

/// Ends the job if it has started and its processes have ended. If a process has ended without leaving
/// the job, the controller removes its host from the job some time later. That would disturb a process
/// of the next command.
///
/// # Errors
/// The controller does not answer.
pub(crate) fn end_begun(lab: &Lab, record: &Record) -> Result<()> {
    match state(lab, record)? {
        Some(v1::JobState::Installing | v1::JobState::Running) => end(lab, record),
        _ => Ok(()),
    }
}

/// Ends the job, unless it has ended already.
pub fn end(lab: &Lab, record: &Record) -> Result<()> {
    let token = read_token(&record.token_file)?;
    let request = v1::EndJobRequest { job: record.job.clone(), token };
    ask(lab, record, async |mut client| {
        // The controller refuses only if the job has failed already.
        let _ = client.end_job(request).await;
        Ok(())
    })
}

/// Calls the controller, which must answer within a time limit.
fn ask<T: Send>(
    lab: &Lab,
    record: &Record,
    call: impl AsyncFnOnce(ControllerClient<Channel>) -> Result<T> + Send,
) -> Result<T> {
    beside_controller(lab, async || {
        let answered = timeout(PATIENCE, async { call(connect(record).await?).await }).await;
        answered.with_context(|| format!("the controller has not answered for {PATIENCE:?}"))?
    })
}

/// Runs `work` with a connection to the controller, without a time limit.
///
/// # Errors
/// The controller does not answer; or the error of `work`.
pub(crate) fn with_controller<T: Send>(
    lab: &Lab,
    record: &Record,
    work: impl AsyncFnOnce(ControllerClient<Channel>) -> Result<T> + Send,
) -> Result<T> {
    beside_controller(lab, async || work(connect(record).await?).await)
}

async fn connect(record: &Record) -> Result<ControllerClient<Channel>> {
    remote::connect(&Remote::controller(&record.controller.to_string(), None)?).await
}

/// Runs `work` on a thread in the controller's namespace, because this process is outside of the lab's
/// namespaces.
fn beside_controller<T: Send>(lab: &Lab, work: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    let done = lab.inside(CONTROLLER, || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work())
    });
    done?
}
