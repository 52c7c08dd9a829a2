//! Members that a job goes on without because they are degraded.

use tributary_planner::degraded::{Mode, mode};
use tributary_wire::Rank;

/// What is done about degraded processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OnDegraded {
    /// The job goes on without them, where that makes steps clearly shorter.
    pub(crate) auto: bool,
    /// θ: while at most this share of all processes is degraded, nobody processes their data; beyond it the others
    /// share their data.
    pub(crate) theta: f64,
}

/// Who is detached from a job, and what becomes of their data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Detachment {
    /// The detached ranks, ascending.
    pub(crate) ranks: Vec<Rank>,
    /// What becomes of their data; `None`: nobody is detached.
    pub(crate) mode: Option<Mode>,
}

impl Detachment {
    /// Detaches `ranks` of `all` processes, with this θ.
    pub(super) fn new(ranks: Vec<Rank>, all: usize, theta: f64) -> Self {
        let mode = (!ranks.is_empty()).then(|| mode(ranks.len(), all, theta));
        Self { ranks, mode }
    }

    /// Detached ranks whose data the members process.
    pub(crate) fn adopted(&self) -> &[Rank] {
        match self.mode {
            Some(Mode::Shrink) => &self.ranks,
            Some(Mode::Detach) | None => &[],
        }
    }
}

/// The expected gain of a change of who is detached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expectation {
    /// Seconds that a step takes before the change.
    pub(crate) before: f64,
    /// Seconds that a step should take after it.
    pub(crate) predicted: f64,
}
