//! The lab's job, created through the controller's API from the controller's namespace.

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
/// The time that failed parts have to recover.
///
/// A repaired cable carries frames before the controller detects it.
const REVIVAL: Duration = Duration::from_secs(10);

/// Creates the job. The controller asks the server's daemon to serve it.
pub(super) fn create(lab: &Lab, record: &Record) -> Result<()> {
    let JobOptions { aggregation, downlink, window, theta, confidential } = record.job_options.clone();
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

/// Creates the job again if it is over: a command that failed has failed the job.
pub fn renew(lab: &Lab, record: &Record) -> Result<()> {
    if is_alive(lab, record)? { Ok(()) } else { create(lab, record) }
}

/// Ends the job and creates it again, with this θ; without one it does nothing about slow processes.
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

/// The controller's list of switches.
///
/// # Errors
/// The controller does not answer, or refuses.
pub fn switches(lab: &Lab, record: &Record) -> Result<Vec<v1::Switch>> {
    ask(lab, record, async |mut client| tributary_cli::switches::list(&mut client).await)
}

/// The job's last schedule, and the profile behind it.
///
/// # Errors
/// The controller does not answer, or has no schedule.
pub fn schedule(lab: &Lab, record: &Record) -> Result<v1::GetScheduleResponse> {
    let request = v1::GetScheduleRequest { job: record.job.clone() };
    let told = ask(lab, record, async |mut client| client.get_schedule(request).await.map_err(refused))?;
    Ok(told.into_inner())
}

/// Returns true if the job is not over yet.
///
/// # Errors
/// The controller does not answer.
pub fn is_alive(lab: &Lab, record: &Record) -> Result<bool> {
    let alive =
        [v1::JobState::Queued, v1::JobState::Created, v1::JobState::Installing, v1::JobState::Running];
    Ok(state(lab, record)?.is_some_and(|state| alive.contains(&state)))
}

/// The job's state, if there is one.
fn state(lab: &Lab, record: &Record) -> Result<Option<v1::JobState>> {
    let request = v1::ListJobsRequest {};
    let listed = ask(lab, record, async |mut client| client.list_jobs(request).await.map_err(refused))?;
    // Names are reused: only the last job of that name can be alive.
    let job = listed.into_inner().jobs.into_iter().rfind(|job| job.name == record.job);
    Ok(job.map(|job| job.state()))
}

/// Ends the job if it has begun, when none of its processes is left.
/// One that has gone without a word takes its host out of the job a little later, and a process of the next command
/// would meet that.
///
/// # Errors
/// The controller does not answer.
pub(crate) fn end_begun(lab: &Lab, record: &Record) -> Result<()> {
    match state(lab, record)? {
        Some(v1::JobState::Installing | v1::JobState::Running) => end(lab, record),
        _ => Ok(()),
    }
}

/// Ends the job, unless it is over.
pub fn end(lab: &Lab, record: &Record) -> Result<()> {
    let token = read_token(&record.token_file)?;
    let request = v1::EndJobRequest { job: record.job.clone(), token };
    ask(lab, record, async |mut client| {
        // The only refusal is that it has failed already.
        let _ = client.end_job(request).await;
        Ok(())
    })
}

/// Calls the controller, which has to answer soon.
fn ask<T: Send>(
    lab: &Lab,
    record: &Record,
    call: impl AsyncFnOnce(ControllerClient<Channel>) -> Result<T> + Send,
) -> Result<T> {
    beside_controller(lab, async || {
        let answered = timeout(PATIENCE, async { call(connect(record).await?).await }).await;
        answered.with_context(|| format!("the controller does not answer for {PATIENCE:?}"))?
    })
}

/// Uses the controller for as long as `work` takes.
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

/// Works on a thread in the controller's namespace, since this process is in none of
/// the lab's namespaces.
fn beside_controller<T: Send>(lab: &Lab, work: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T> {
    let done = lab.inside(CONTROLLER, || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work())
    });
    done?
}
