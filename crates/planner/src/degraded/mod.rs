//! Detects degraded processes, and decides if a job is faster without them.
//!
//! Pure functions and state machines. [`Team`] takes the steps that the processes of one job have made;
//! [`Team::decide`] returns the decision:
//!
//! 1. A process takes t(b) = α + β · b for a step of b samples ([`Model`]), fitted to its measured times.
//! 2. It is *degraded* once it has taken more than [`DEGRADED_ABOVE`] times the median for [`STEADY_STEPS`] steps, and
//!    well again once it has stayed below [`WELL_BELOW`] times the median for the same number of steps ([`Condition`]).
//! 3. Let r be the degraded processes' share of all. r ≤ θ: *detach*, the others continue with their own data. r > θ:
//!    *shrink*, the others take over the data of the excluded processes ([`Mode`]).
//! 4. The candidates are the groups that keep all processes that are well. The team chooses the candidate whose step
//!    takes the least time ([`Candidate`]), if that is at most [`WORTH_IT`] of the present time of a step.
//! 5. A process that is well again comes back.

mod choice;
mod detector;
mod model;
mod profile;
mod team;

pub use choice::{Candidate, Communication, Performance, SelectionInput, candidates, mode};
pub use detector::{Condition, DEGRADED_ABOVE, Detector, STEADY_STEPS, WELL_BELOW};
pub use model::Model;
pub use profile::{Profile, Step};
pub use team::{Decision, Member as TeamMember, Team, Verdict};

use std::fmt;

/// The largest share of the present time that a step may take in another group for a change to be worth
/// it: a change is a pause, and what is hardly better now may be worse in a minute.
pub const WORTH_IT: f64 = 0.9;

/// The treatment of the data of excluded processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No process uses the data of the excluded processes.
    Detach,
    /// The active processes process the data of the excluded ones.
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
