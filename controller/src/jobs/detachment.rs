//! Members that a job continues without because they are degraded.

use tributary_planner::degraded::{Mode, mode};
use tributary_wire::Rank;

/// Policy for degraded processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OnDegraded {
    /// True if the job continues without degraded processes when that makes its steps clearly shorter.
    pub(crate) auto: bool,
    /// θ: the largest share of processes whose data the job leaves out when they are degraded.
    /// If a larger share is degraded, the other processes take over the data of the degraded ones.
    pub(crate) theta: f64,
}

/// The processes that are detached from a job, and the treatment of their data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Detachment {
    /// The detached ranks, ascending.
    pub(crate) ranks: Vec<Rank>,
    /// The treatment of the detached processes' data; `None` if no process is detached.
    pub(crate) mode: Option<Mode>,
}

impl Detachment {
    /// Creates the detachment of `ranks` from a job of `all` processes. θ decides the treatment of their
    /// data.
    pub(super) fn new(ranks: Vec<Rank>, all: usize, theta: f64) -> Self {
        let mode = (!ranks.is_empty()).then(|| mode(ranks.len(), all, theta));
        Self { ranks, mode }
    }

    /// Returns the detached ranks whose data the remaining members process.
    pub(crate) fn adopted(&self) -> &[Rank] {
        match self.mode {
            Some(Mode::Shrink) => &self.ranks,
            Some(Mode::Detach) | None => &[],
        }
    }
}

/// The expected gain of a change in the set of detached processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expectation {
    /// Duration of a step before the change, in seconds.
    pub(crate) before: f64,
    /// Expected duration of a step after the change, in seconds.
    pub(crate) predicted: f64,
}
