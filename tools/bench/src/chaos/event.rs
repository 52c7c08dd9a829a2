//! Reports of a chaos worker to the runner: one JSON object a line, on its standard output.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Something that happened to a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(super) enum MemberEvent {
    /// The member has joined the job.
    Joined,
    /// An all-reduce is done, and its sum passed the check.
    Reduced(Reduced),
    /// An all-reduce is done, and its sum is wrong.
    Wrong {
        /// The number of all-reduces before this one.
        round: u32,
        /// The error in the sum.
        problem: String,
    },
    /// The member is out of the job now, and tries to rejoin.
    Out {
        /// The reason why the member is out.
        reason: String,
    },
}

/// An all-reduce whose sum a member has received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reduced {
    /// The number of all-reduces before this one.
    pub(super) round: u32,
    /// The time at which the all-reduce was complete.
    pub(super) at: Moment,
    /// Digest of the sum, its contributors, and the state after this round. It is the same on every member.
    pub(super) digest: u64,
    /// The least number of contributors to any part of the sum.
    pub(super) contributors: u32,
}

/// A moment, in nanoseconds of the clock that all processes of this machine share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Moment(u64);

impl Moment {
    /// Returns the current time.
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        // The clock counts from the machine's start, so the time is never negative.
        let since_start = Duration::try_from(now).unwrap_or_default();
        Self(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    #[cfg(test)]
    pub(super) fn of_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_comes_back() {
        let reduced = Reduced { round: 7, at: Moment::of_millis(5), digest: u64::MAX, contributors: 8 };
        for event in [
            MemberEvent::Joined,
            MemberEvent::Reduced(reduced),
            MemberEvent::Wrong { round: 3, problem: "a\nb".into() },
            MemberEvent::Out { reason: "no agent".into() },
        ] {
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<MemberEvent>(&line).unwrap(), event);
        }
    }

    #[test]
    fn time_goes_on() {
        let before = Moment::now();
        let after = Moment::now();
        assert!(after >= before && before.since(after) <= Duration::ZERO);
        assert_eq!(Moment::of_millis(7).since(Moment::of_millis(5)), Duration::from_millis(2));
    }
}
