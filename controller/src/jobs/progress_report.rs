//! The last reports of hosts on the participants of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tributary_wire::Rank;

/// The last report of a host on its participant in a job.
#[derive(Debug, Clone)]
pub(crate) enum ProgressReport {
    Worker(ProcessReport),
    Server(ServerReport),
}

/// The last report on a job's server.
#[derive(Debug, Clone)]
pub(crate) struct ServerReport {
    /// Ranks that wait for a result and whose requests reach the server.
    pub(super) asking: BTreeSet<Rank>,
    pub(super) at: Instant,
}

/// The last report on a job's training process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessReport {
    /// The number of all-reduces that have succeeded.
    pub(crate) operations: u64,
    /// The time that the process last spent between two all-reduces.
    pub(crate) step: Duration,
    /// Time for which the process has been waiting for a result.
    pub(crate) waits: Duration,
    /// Time for which it has waited in the present generation:
    /// at most the time that the job has had its present structure.
    pub(super) stalled: Duration,
    pub(super) at: Instant,
}

impl ProgressReport {
    /// Returns the time at which the report arrived.
    pub(super) fn at(&self) -> Instant {
        match self {
            Self::Worker(report) => report.at,
            Self::Server(report) => report.at,
        }
    }
}
