//! The results of a simulation.

use std::time::Duration;

use tributary_protocol::{ServerStats, WorkerStats};

use crate::link::Carried;

/// The results of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOutcome {
    /// Time from the start until the last worker had the last sum.
    pub duration: Duration,
    /// Traffic of each link towards the server: the switches' uplinks, and then the workers' links.
    ///
    /// The first link is the link into the server.
    pub up: Vec<Carried>,
    /// Traffic of these links in the direction away from the server.
    pub down: Vec<Carried>,
    /// The counters of each worker.
    pub workers: Vec<WorkerStats>,
    /// The counters of the server.
    pub server: ServerStats,
}

impl ScenarioOutcome {
    /// Returns the bytes that the link into the server carried.
    pub fn bytes_into_server(&self) -> u64 {
        self.up.first().map_or(0, |link| link.bytes)
    }

    /// Returns the bytes that the link out of the server carried.
    pub fn bytes_out_of_server(&self) -> u64 {
        self.down.first().map_or(0, |link| link.bytes)
    }

    /// Returns the bytes on all links, in both directions.
    pub fn bytes_on_all_links(&self) -> u64 {
        self.up.iter().chain(&self.down).map(|link| link.bytes).sum()
    }

    /// Returns the number of packets dropped because a queue was full.
    pub fn dropped(&self) -> u64 {
        self.up.iter().chain(&self.down).map(|link| link.dropped).sum()
    }

    /// Returns the number of slices that all workers sent for the first time.
    pub fn sent(&self) -> u64 {
        self.workers.iter().map(|worker| worker.sent).sum()
    }

    /// Returns the number of slices that all workers retransmitted.
    pub fn retransmitted(&self) -> u64 {
        self.workers.iter().map(|worker| worker.retransmitted).sum()
    }

    /// Returns the number of retransmission timeouts on all workers.
    pub fn timeouts(&self) -> u64 {
        self.workers.iter().map(|worker| worker.timeouts).sum()
    }
}
