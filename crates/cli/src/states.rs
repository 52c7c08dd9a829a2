//! One-word names for the states of jobs and switches, used in tables, JSON and metrics.

use tributary_api::v1;

/// Returns the name of a job's state.
pub fn of_job(state: v1::JobState) -> &'static str {
    match state {
        v1::JobState::Unspecified => "unknown",
        v1::JobState::Queued => "queued",
        v1::JobState::Created => "created",
        v1::JobState::Installing => "installing",
        v1::JobState::Running => "running",
        v1::JobState::Ended => "ended",
        v1::JobState::Failed => "failed",
    }
}

/// Returns the name of a switch's state.
pub fn of_switch(state: v1::SwitchState) -> &'static str {
    match state {
        v1::SwitchState::Unspecified => "unknown",
        v1::SwitchState::Connecting => "connecting",
        v1::SwitchState::Up => "up",
        // Scripts and the live page read this name.
        v1::SwitchState::Unreachable => "away",
    }
}
