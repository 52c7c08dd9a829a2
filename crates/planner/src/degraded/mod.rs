//! Detects degraded processes, and decides if a job is faster without them.
//!
//! The module has pure functions and state machines. [`Team`] records the steps of the processes of one job;
//! [`Team::decide`] returns the decision:
//!
//! 1. A process takes t(b) = α + β · b for a step of b samples ([`Model`]). The model is fitted to its measured times.
//! 2. A process is *degraded* once it has taken more than [`DEGRADED_ABOVE`] times the median for [`STEADY_STEPS`]
//!    steps. It has recovered once it has stayed below [`WELL_BELOW`] times the median for the same number of steps
//!    ([`Condition`]).
//! 3. r is the share of degraded processes among all. If r ≤ θ, they are *detached*: the other processes continue with
//!    their own data. If r > θ, the job *shrinks*: the other processes take over the data of the excluded processes
//!    ([`Mode`]).
//! 4. The candidates are the groups that keep all processes that are not degraded. The team chooses the candidate whose
//!    step takes the least time ([`Candidate`]), if that is at most [`WORTH_IT`] of the present time of a step.
//! 5. A process that has recovered returns to the job.

mod choice;
mod detector;
mod model;
mod profile;
mod team;

pub use choice::{Candidate, Communication, Performance, SelectionInput, candidates, mode};
pub use detector::{Condition, DEGRADED_ABOVE, Detector, STEADY_STEPS, WELL_BELOW};
pub use model::Model;
pub use profile::{Step, StepProfile};
pub use team::{Team, TeamDecision, TeamMember, Verdict};

use std::fmt;

/// A change is worth it if a step in the new group takes at most this fraction of the present time.
/// A change is a pause, and a group that is hardly better now may be worse in a minute.
pub const WORTH_IT: f64 = 0.9;

/// The treatment of the data of excluded processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No process uses the data of the excluded processes.
    Detach,
    /// The active processes take over the data of the excluded processes.
    Shrink,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detach => "detach",
            Self::Shrink => "shrink",
        })
    }
}
