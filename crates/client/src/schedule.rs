//! The profile of the times at which gradients are ready, and the schedule by which they are sent.

use std::time::Duration;

use tributary_api::agent::v1;
use tributary_api::agent::v1::hand_in_profile_response::Outcome;
use tributary_api::schedule;
pub use tributary_api::schedule::ProfileNumber;
pub use tributary_planner::schedule::{Gradient, Profile, Schedule, Set};

use crate::error::ClientError;
use crate::operation::milliseconds;

/// The decision after a profile. It is the same for all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Gradients are sent by this schedule.
    Schedule {
        /// The number of the profile on which the schedule is based.
        version: u32,
        /// The schedule, the same on all members.
        schedule: Schedule,
    },
    /// The profile is discarded, because a member was delayed while it profiled. All members profile
    /// again, with other data. The text is the reason.
    ThrownOut(String),
}

pub(crate) fn request(
    session: Vec<u8>,
    number: ProfileNumber,
    profile: &Profile,
    deadline: Option<Duration>,
) -> v1::HandInProfileRequest {
    let Profile { gradients, start_up } = profile;
    let profile = schedule::Profile {
        bytes: gradients.iter().map(|gradient| gradient.bytes).collect(),
        ready_nanoseconds: gradients.iter().map(|gradient| nanoseconds(gradient.ready)).collect(),
        start_up_nanoseconds: nanoseconds(*start_up),
    };
    v1::HandInProfileRequest {
        session,
        number: Some(number),
        profile: Some(profile),
        deadline_milliseconds: deadline.map_or(0, milliseconds),
    }
}

impl Decision {
    /// Reads the agent's answer for a model with `gradients` gradients.
    pub(crate) fn read(answer: v1::HandInProfileResponse, gradients: usize) -> Result<Self, ClientError> {
        let schedule = match answer.outcome {
            Some(Outcome::Schedule(schedule)) => schedule,
            Some(Outcome::ThrownOut(thrown_out)) => return Ok(Self::ThrownOut(thrown_out.reason)),
            None => return Err(ClientError::BadAnswer("what has come of a profile is missing")),
        };
        let set = |set: schedule::Set| Set {
            gradients: set.gradients.into_iter().map(|place| place as usize).collect(),
            bytes: set.bytes,
            at: Duration::from_nanos(set.at_nanoseconds),
            late: Duration::from_nanos(set.late_nanoseconds),
        };
        let version = schedule.version;
        let schedule = Schedule { sets: schedule.sets.into_iter().map(set).collect() };
        let mut places: Vec<_> = schedule.sets.iter().flat_map(|set| set.gradients.iter().copied()).collect();
        places.sort_unstable();
        match places.into_iter().eq(0..gradients) {
            true => Ok(Self::Schedule { version, schedule }),
            false => Err(ClientError::BadAnswer("its schedule does not have each gradient once")),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
