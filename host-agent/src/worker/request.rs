//! Requests for all-reduces, and their results.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tributary_protocol::{JointAllReduce, StripedReduced};

use super::members::Members;
use super::training_progress::StepPart;

/// A request for an all-reduce.
pub(crate) struct ReduceRequest {
    /// The operation of each stripe; one if the first stripe runs all of it.
    pub(crate) operations: Vec<JointAllReduce>,
    /// The time limit of the all-reduce, counted from the end of the preceding all-reduce; `None` if it
    /// has no limit.
    pub(crate) deadline: Option<Duration>,
    /// The generation whose joiners this all-reduce synchronises; 0 if it does not synchronise.
    pub(crate) regroup: u32,
    /// The part of the all-reduce in the training.
    pub(crate) part: StepPart,
    /// The position of the all-reduce in its stream. It is refused if an earlier all-reduce of the stream
    /// was refused.
    pub(crate) position: StreamPosition,
    /// A value that is kept with the operation's data, and returned with its result. An all-reduce that
    /// has failed or that its caller has abandoned continues in the background after the answer. It keeps the value
    /// until it is done.
    pub(crate) held: Box<dyn Any + Send>,
}

impl ReduceRequest {
    /// Returns a request without a limit or a position, which keeps nothing.
    pub(crate) fn new(operations: Vec<JointAllReduce>) -> Self {
        Self {
            operations,
            deadline: None,
            regroup: 0,
            part: StepPart::Other,
            position: StreamPosition::default(),
            held: Box::new(()),
        }
    }
}

/// The result of an all-reduce.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) reduced: StripedReduced,
    /// The members of the job at the time of the result.
    pub(crate) members: Arc<Members>,
    /// The value that was kept with the data.
    pub(crate) held: Option<Box<dyn Any + Send>>,
}

/// The place of an all-reduce among all-reduces that a process starts one after another without
/// waiting for results.
/// If one all-reduce is not started, no later one is started. A later all-reduce would otherwise take its place in the
/// order of the job's operations, and would be added to other members' all-reduces of another name. Earlier all-reduces
/// are started, even if the worker handles them later.
#[derive(Debug, Clone)]
pub(crate) struct StreamPosition {
    place: u64,
    /// The first place whose all-reduce was not started; `u64::MAX` if there is none.
    broken: Arc<AtomicU64>,
}

impl Default for StreamPosition {
    fn default() -> Self {
        Self { place: 0, broken: Arc::new(AtomicU64::new(u64::MAX)) }
    }
}

impl StreamPosition {
    /// Returns the position with number `place` in the same stream.
    pub(crate) fn at(&self, place: u64) -> Self {
        Self { place, broken: Arc::clone(&self.broken) }
    }

    /// Notes that the all-reduce at this position was not started.
    pub(crate) fn break_off(&self) {
        self.broken.fetch_min(self.place, Ordering::AcqRel);
    }

    /// Returns true if the all-reduce at this position, or an earlier one, was not started.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire) <= self.place
    }
}
