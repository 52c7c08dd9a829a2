//! Reports to a process and the log about the causes of waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;
use tributary_api::agent::v1::job_event::Event;
use tributary_api::agent::{Moments, v1};

use tributary_ps::client::Waiting;

use super::member::{Member, Phase};
use super::running::Running;

/// Reports to the process and the log what the job waits for, until the caller drops the future.
pub(super) async fn say(
    job: &str,
    member: &Arc<Member>,
    events: &mpsc::Sender<Result<v1::JobEvent, Status>>,
) {
    let (phase, opened) = (member.phase(), Instant::now());
    let mut looks = interval(Moments::LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moments = Moments::default();
    loop {
        looks.tick().await;
        let phase = phase.borrow().clone();
        let (time, what) = match &phase {
            Phase::Waiting => (opened.elapsed(), None),
            Phase::Running(running) => match wait_of(running).await {
                Some((time, what)) => (time, Some(what)),
                None => (Duration::ZERO, None),
            },
            // The job no longer waits, and another task reports the job's end.
            Phase::Over(_) => return std::future::pending().await,
        };
        if !moments.is_one(time) {
            continue;
        }
        let what = what.unwrap_or_else(|| "the job to start".to_owned()) + &reasons(member).await;
        let seconds = time.as_secs();
        tracing::info!(job, seconds, what, "waiting");
        let event = Some(Event::Waiting(v1::Waiting { what, seconds }));
        // If the process does not read now, the report is dropped; the process gets the next report.
        let _ = events.try_send(Ok(v1::JobEvent { event }));
    }
}

/// Reports to a process and the log what its training waits for, until the training is over.
pub(super) async fn pass_on(
    job: &str,
    waits: &mut mpsc::Receiver<Waiting>,
    events: &mpsc::Sender<Result<v1::TrainingEvent, Status>>,
) {
    while let Some(Waiting { what, time }) = waits.recv().await {
        let seconds = time.as_secs();
        tracing::info!(job, seconds, what, "waiting");
        let event = Some(v1::training_event::Event::Waiting(v1::Waiting { what, seconds }));
        // If the process does not read now, the report is dropped; the process gets the next report.
        let _ = events.try_send(Ok(v1::TrainingEvent { event }));
    }
    std::future::pending::<()>().await;
}

/// Returns the duration and the cause of the wait of the all-reduces under way.
async fn wait_of(running: &Running) -> Option<(Duration, String)> {
    // A wait cannot be longer than the oldest all-reduce under way, so a young all-reduce needs no check.
    running.under_way().filter(|since| since.elapsed() >= Moments::FIRST)?;
    let wait = running.agent.situation().await.ok()?.wait?;
    Some((wait.silent, wait.to_string()))
}

/// Returns the controller's reasons for the wait, or a text that the controller is unreachable.
async fn reasons(member: &Member) -> String {
    let away = *member.away.borrow();
    if let Some(since) = away {
        return format!("; the controller has been away for {:.1?}", since.elapsed());
    }
    let Some(job) = member.speaker.job().await else { return String::new() };
    let mut reasons = String::new();
    if !job.waiting_for.is_empty() {
        reasons += &format!("; the controller waits for {}", job.waiting_for.join(", "));
    }
    if !job.setback.is_empty() {
        reasons += &format!("; the job cannot change over: {}", job.setback);
    }
    reasons
}
