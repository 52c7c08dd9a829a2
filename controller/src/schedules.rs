//! Collects workers' profiles, and answers with schedules.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::Status;
use tributary_api::{schedule, v1};
use tributary_planner::schedule::{Gradient, Profile, Schedule, Set};
use tributary_wire::Rank;

use crate::jobs::{Agreed, HandedIn, JobError, Number, ProfileOutcome};
use crate::manager::Manager;

/// The time that the controller lets a worker wait for the profiles of other workers. The worker then
/// sends its request again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of gradients of a model: ten times the number of the largest models in training.
const MAX_GRADIENTS: usize = 1 << 16;

/// Submits a worker's profile, and waits up to [`PATIENCE`] for the profiles of the other workers.
pub(crate) async fn hand_in(
    manager: &Manager,
    (name, token, host): (&str, &[u8], &str),
    number: Number,
    profile: &Profile,
) -> Result<HandedIn, JobError> {
    let mut patience = pin!(sleep(PATIENCE));
    loop {
        let (heard, mut news) = {
            let mut state = manager.state();
            let key = state.jobs.authorize(name, token)?;
            let job = state.jobs.get_mut(key).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
            let news = job.profiles.news.subscribe();
            job.check_alive()?;
            let (rank, members) = (job.rank_of(host)?, job.record.generation().ranks());
            (job.profiles.hand_in(rank, (number, profile), members, Instant::now()), news)
        };
        if !matches!(heard, HandedIn::Awaited(_)) {
            return Ok(heard);
        }
        tokio::select! {
            // An error means that the job is gone. The next iteration of the loop reports that.
            _ = news.changed() => {}
            () = &mut patience => return Ok(heard),
        }
    }
}

/// Checks a profile that a worker has submitted.
pub(crate) fn checked(
    number: Option<schedule::ProfileNumber>,
    profile: Option<schedule::Profile>,
) -> Result<(Number, Profile), Status> {
    let (Some(number), Some(profile)) = (number, profile) else {
        return Err(Status::invalid_argument("the profile or its number is missing"));
    };
    let schedule::Profile { bytes, ready_nanoseconds, start_up_nanoseconds } = profile;
    if bytes.len() != ready_nanoseconds.len() || bytes.len() > MAX_GRADIENTS || number.number == 0 {
        let problem = format!(
            "profile {} of {} sizes and {} times: they count from 1, have as many of both, and at most {MAX_GRADIENTS}",
            number.number,
            bytes.len(),
            ready_nanoseconds.len()
        );
        return Err(Status::invalid_argument(problem));
    }
    let pairs = bytes.into_iter().zip(ready_nanoseconds);
    let gradient = |(bytes, ready)| Gradient { bytes, ready: Duration::from_nanos(ready) };
    let profile = Profile {
        gradients: pairs.map(gradient).collect(),
        start_up: Duration::from_nanos(start_up_nanoseconds),
    };
    Ok((Number { run: number.run, number: number.number }, profile))
}

/// Converts the outcome of a profile to the answer to a worker.
pub(crate) fn answer(heard: HandedIn) -> Result<v1::HandInProfileResponse, Status> {
    use v1::hand_in_profile_response::Outcome as Answer;
    let answer = match heard {
        HandedIn::Outcome(ProfileOutcome::Agreed(agreed)) => {
            Answer::Schedule(to_schedule(agreed.version, &agreed.schedule))
        }
        HandedIn::Outcome(ProfileOutcome::ThrownOut(stall)) => {
            Answer::ThrownOut(schedule::ThrownOut { reason: stall.to_string() })
        }
        HandedIn::Outcome(ProfileOutcome::Unequal(error)) => {
            return Err(Status::invalid_argument(error.to_string()));
        }
        HandedIn::Awaited(ranks) => Answer::Awaited(v1::ProfilesAwaited { ranks: to_ranks(&ranks) }),
        HandedIn::Passed(number) => {
            let problem = format!("the other ranks are at profile {number} already");
            return Err(Status::aborted(problem));
        }
    };
    Ok(v1::HandInProfileResponse { outcome: Some(answer) })
}

/// Returns a job's schedule, and the profile from which it was derived.
pub(crate) fn report(job: &str, agreed: &Agreed) -> v1::GetScheduleResponse {
    let Profile { gradients, start_up } = &agreed.profile;
    let profile = schedule::Profile {
        bytes: gradients.iter().map(|gradient| gradient.bytes).collect(),
        ready_nanoseconds: gradients.iter().map(|gradient| nanoseconds(gradient.ready)).collect(),
        start_up_nanoseconds: nanoseconds(*start_up),
    };
    v1::GetScheduleResponse {
        job: job.to_owned(),
        schedule: Some(to_schedule(agreed.version, &agreed.schedule)),
        profile: Some(profile),
        ranks: to_ranks(&agreed.ranks),
        thrown_out: agreed.thrown_out as u32,
        age_milliseconds: u64::try_from(agreed.at.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

fn to_schedule(version: u32, agreed: &Schedule) -> schedule::Schedule {
    let set = |set: &Set| schedule::Set {
        gradients: set.gradients.iter().map(|place| *place as u32).collect(),
        bytes: set.bytes,
        at_nanoseconds: nanoseconds(set.at),
        late_nanoseconds: nanoseconds(set.late),
    };
    schedule::Schedule { version, sets: agreed.sets.iter().map(set).collect() }
}

fn to_ranks(ranks: &[Rank]) -> Vec<u32> {
    ranks.iter().map(|rank| rank.get().into()).collect()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
