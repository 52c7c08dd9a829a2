//! Reports to a process and the log about the causes of waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;
use tributary_api::agent::v1::job_event::Event;
use tributary_api::agent::{Moments, v1};

use tributary_ps::client::Waiting;

use super::arrivals::Arrival;
use super::jobs::Jobs;
use super::member::{Member, Phase};
use crate::membership::JobMember;

/// Reports to the process and the log what the job waits for, until the caller drops the future.
pub(super) async fn say(
    job: &str,
    (member, process): (&Arc<Member>, u32),
    events: &mpsc::Sender<Result<v1::JobEvent, Status>>,
) {
    let mut gathers = Gathers::default();
    let (phase, opened) = (member.phase(), Instant::now());
    let mut looks = interval(Moments::LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moments = Moments::default();
    loop {
        looks.tick().await;
        let phase = phase.borrow().clone();
        let (time, what) = match &phase {
            Phase::Waiting => (opened.elapsed(), None),
            Phase::Running(_) => match member.situation().await.and_then(|situation| situation.wait) {
                Some(wait) => (wait.silent, Some(wait.to_string())),
                None => gathers.wait(member, process),
            },
            // The job no longer waits, and another task reports the job's end.
            Phase::Over(_) => return std::future::pending().await,
        };
        if !moments.is_one(time) {
            continue;
        }
        let what = what.unwrap_or_else(|| "the job to start".to_owned()) + &reasons(member).await;
        report(job, (what, time.as_secs()), events);
    }
}

/// Reports to the process and the log which processes of the host have not come, until the caller drops
/// the future or the job is over. Returns the reason for its end, because the missing processes will not come.
pub(super) async fn for_processes(
    jobs: &Jobs,
    joining: &JobMember,
    arrival: &Arrival,
    events: &mpsc::Sender<Result<v1::JobEvent, Status>>,
) -> Status {
    let opened = Instant::now();
    let mut looks = interval(Moments::LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moments = Moments::default();
    loop {
        looks.tick().await;
        let (time, missing) = (opened.elapsed(), arrival.missing());
        if missing.is_empty() || !moments.is_one(time) {
            continue;
        }
        let numbers: Vec<_> = missing.iter().map(u32::to_string).collect();
        let word = if numbers.len() == 1 { "process" } else { "processes" };
        let what = format!("{word} {} of this host to join the job", numbers.join(", "));
        report(&joining.job, (what, time.as_secs()), events);
        if let Err(over) = jobs.check_alive(joining).await {
            return over;
        }
    }
}

/// Reports a wait to the process and the log.
fn report(job: &str, (what, seconds): (String, u64), events: &mpsc::Sender<Result<v1::JobEvent, Status>>) {
    tracing::info!(job, seconds, what, "waiting");
    let event = Some(Event::Waiting(v1::Waiting { what, seconds }));
    // If the process does not read now, the report is dropped; the process gets the next report.
    let _ = events.try_send(Ok(v1::JobEvent { event }));
}

/// The wait of a process for the other processes of its host.
#[derive(Default)]
struct Gathers(Option<(String, Instant)>);

impl Gathers {
    /// Returns the duration of the wait, and a text that names the missing processes. The duration is zero
    /// if the process does not wait for others.
    fn wait(&mut self, member: &Member, process: u32) -> (Duration, Option<String>) {
        let wait = member.joint.as_ref().and_then(|joint| joint.wait());
        let Some((missing, name)) = wait.filter(|(missing, _)| !missing.contains(&process)) else {
            self.0 = None;
            return (Duration::ZERO, None);
        };
        let what = format!("{} of this host to start all-reduce \"{name}\"", member.names_of(&missing));
        let same = self.0.take().filter(|(before, _)| *before == what);
        let (_, since) = self.0.insert(same.unwrap_or_else(|| (what.clone(), Instant::now())));
        (since.elapsed(), Some(what))
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

/// Returns the controller's reasons for the wait, or a text that the controller is unreachable.
async fn reasons(member: &Member) -> String {
    if let Some(time) = member.unreachable_for() {
        return format!("; the controller has been unreachable for {time:.1?}");
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
