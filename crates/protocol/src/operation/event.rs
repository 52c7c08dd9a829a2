//! The events that report the end of an operation.

use crate::error::CollectiveError;
use crate::numbers::Reduced;

/// The number of an operation in its job.
/// Operations count up from 0 in the order in which they were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationEvent {
    /// The operation has a result.
    Completed {
        /// The operation.
        operation: OperationId,
        /// The result.
        reduced: Reduced,
    },
    /// The operation has no result. The job continues, and further operations can start.
    /// A worker sends zeros for the remaining slices of the operation, so that the sequence numbers of all members stay
    /// equal.
    Failed {
        /// The operation.
        operation: OperationId,
        /// The error.
        error: CollectiveError,
    },
}
