//! Profiles: the times at which a process's gradients were ready. The agent sends a profile to the
//! controller, which answers with the schedule for all workers.

use std::time::Duration;

use tokio::time::timeout;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_api::agent::v1::hand_in_profile_response::Outcome;
use tributary_api::schedule::{Profile, ProfileNumber};
use tributary_api::v1::hand_in_profile_response::Outcome as Heard;

use super::member::{Member, Phase};
use crate::backoff::Backoff;
use crate::error::may_pass;

/// Sends a profile to the controller. Waits for the outcome until the job is over or the request's
/// deadline has passed.
pub(super) async fn hand_in(
    member: &Member,
    request: v1::HandInProfileRequest,
) -> Result<v1::HandInProfileResponse, Status> {
    let v1::HandInProfileRequest { number, profile, deadline_milliseconds, .. } = request;
    let (Some(number), Some(profile)) = (number, profile) else {
        return Err(Status::invalid_argument("the profile or its number is missing"));
    };
    member.agent()?;
    let mut phase = member.phase();
    let mut missing = String::new();
    let all = async {
        tokio::select! {
            outcome = ask(member, number, &profile, &mut missing) => outcome,
            // An error means that the job is over.
            _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => Err(over(member)),
        }
    };
    let outcome = match deadline_milliseconds {
        0 => all.await,
        milliseconds => match timeout(Duration::from_millis(milliseconds), all).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let problem =
                    format!("profile {} took longer than {milliseconds} ms: {missing}", number.number);
                Err(Status::deadline_exceeded(problem))
            }
        },
    };
    Ok(v1::HandInProfileResponse { outcome: Some(outcome?) })
}

/// Requests the outcome until it exists. Stores in `missing` why the outcome does not exist yet.
async fn ask(
    member: &Member,
    number: ProfileNumber,
    profile: &Profile,
    missing: &mut String,
) -> Result<Outcome, Status> {
    let mut backoff = Backoff::default();
    loop {
        match member.speaker.hand_in_profile(number, profile.clone()).await {
            Ok(answer) => match answer.outcome {
                Some(Heard::Schedule(schedule)) => return Ok(Outcome::Schedule(schedule)),
                Some(Heard::ThrownOut(reason)) => return Ok(Outcome::ThrownOut(reason)),
                Some(Heard::Awaited(awaited)) => {
                    let ranks: Vec<_> = awaited.ranks.iter().map(u32::to_string).collect();
                    *missing = format!(
                        "rank {} has handed in none: look whether it still trains, and start all ranks again",
                        ranks.join(", ")
                    );
                    backoff.reset();
                }
                None => return Err(Status::internal("the controller's answer makes no sense")),
            },
            Err(status) if may_pass(status.code()) => {
                *missing = format!(
                    "the controller does not answer ({}): look at it, and start all ranks again",
                    status.message()
                );
                backoff.wait().await;
            }
            Err(status) => return Err(status),
        }
    }
}

fn over(member: &Member) -> Status {
    member.agent().err().unwrap_or_else(|| Status::aborted("the job is over"))
}
