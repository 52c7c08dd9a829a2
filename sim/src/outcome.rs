//! What came of a simulation.

use std::time::Duration;

use tributary_protocol::{ServerStats, WorkerStats};

use crate::link::Carried;

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From the start until the last worker had the last result.
    pub duration: Duration,
    /// Each link towards the server: those of the switches (the first is the one into the server), then
    /// those of the workers.
    pub up: Vec<Carried>,
    /// The same links, away from the server.
    pub down: Vec<Carried>,
    /// What each worker counted.
    pub workers: Vec<WorkerStats>,
    /// What the server counted.
    pub server: ServerStats,
}

impl Outcome {
    /// Bytes that the link into the server carried.
    pub fn bytes_into_server(&self) -> u64 {
        self.up.first().map_or(0, |link| link.bytes)
    }

    /// Bytes that the link out of the server carried.
    pub fn bytes_out_of_server(&self) -> u64 {
        self.down.first().map_or(0, |link| link.bytes)
    }

    /// Bytes on all links, both directions.
    pub fn bytes_on_all_links(&self) -> u64 {
        self.up.iter().chain(&self.down).map(|link| link.bytes).sum()
    }

    /// Packets that found a queue full.
    pub fn dropped(&self) -> u64 {
        self.up.iter().chain(&self.down).map(|link| link.dropped).sum()
    }

    /// Slices that all workers sent for the first time.
    pub fn sent(&self) -> u64 {
        self.workers.iter().map(|worker| worker.sent).sum()
    }

    /// Slices that all workers sent again.
    pub fn retransmitted(&self) -> u64 {
        self.workers.iter().map(|worker| worker.retransmitted).sum()
    }

    /// Retransmission timeouts on all workers.
    pub fn timeouts(&self) -> u64 {
        self.workers.iter().map(|worker| worker.timeouts).sum()
    }
}
