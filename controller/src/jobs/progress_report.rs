//! The last reports that hosts sent on the participants of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tributary_wire::Rank;

/// The last report that a host sent on its participant in a job.
#[derive(Debug, Clone)]
pub(crate) enum ProgressReport {
    Worker(ProcessReport),
    Server(ServerReport),
}

/// The last report on the server of a job.
#[derive(Debug, Clone)]
pub(crate) struct ServerReport {
    /// Ranks that wait for a result and whose requests reach the server.
    pub(super) asking: BTreeSet<Rank>,
    pub(super) at: Instant,
}

/// The last report on a training process of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessReport {
    /// The number of all-reduces that have succeeded.
    pub(crate) operations: u64,
    /// The time between the process's last two all-reduces.
    pub(crate) step: Duration,
    /// Time for which the process has been waiting for a result.
    pub(crate) waits: Duration,
    /// Time for which the process has been waiting in the present generation.
    /// It is at most the age of the present generation.
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
