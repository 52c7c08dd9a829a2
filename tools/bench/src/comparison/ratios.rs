//! Ratios between two measured cases.

use serde::{Deserialize, Serialize};

use super::contender::Case;
use crate::statistics::Ratio;

/// The time of this project's all-reduce relative to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// This project's case.
    pub ours: Case,
    /// The case that is compared with `ours`: another contender, or this project's case without losses.
    pub other: Case,
    /// Ratio of the times. Its spread is over pairs of turns in the same round.
    pub ratio: Ratio,
}
