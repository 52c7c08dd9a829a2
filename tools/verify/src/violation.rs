//! The violations that a check finds.

use serde::Serialize;

/// Violations of the protocol's promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "property")]
pub enum Violation {
    /// The server has finished a slice with a wrong sum. The right sum has each member's contribution once.
    WrongSum {
        /// The number of the slice, from 0.
        slice: u8,
        /// The number of contributors that the sum claims.
        contributors: u32,
    },
    /// A worker's operation has failed.
    Failed {
        /// The worker's rank.
        worker: u8,
        /// The error.
        error: String,
    },
    /// A packet has changed a slot that another slice or job holds, although it must not.
    Touched {
        /// The number of the switch, from 0.
        switch: u8,
    },
    /// The job does not complete even though faults have stopped.
    Stuck,
}
