//! The events that report the end of an operation.

use crate::error::CollectiveError;
use crate::numbers::Reduced;

/// The number of an operation in its job: operations count up from 0 in the order in
/// which they were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationEvent {
    /// It has its result.
    Completed {
        /// The operation.
        operation: OperationId,
        /// The result.
        reduced: Reduced,
    },
    /// It will have no result. The job continues: a worker sends zeros for the rest of the operation, so
    /// that the members' sequence numbers stay together, and can start others.
    Failed {
        /// The operation.
        operation: OperationId,
        /// The error.
        error: CollectiveError,
    },
}
