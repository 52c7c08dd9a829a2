//! The results of the demo, for programs.

use serde::Serialize;

/// The demo's JSON object. Bytes are those of whole frames on links, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Training nodes.
    pub(crate) workers: usize,
    /// Rounds of training, one all-reduce each.
    pub(crate) rounds: u32,
    /// Values that each worker contributed to each all-reduce.
    pub(crate) values_per_round: usize,
    /// True if every worker got the same bits in every round and ended with the same parameters.
    pub(crate) identical_on_all_workers: bool,
    /// The largest difference from the sum in double precision, relative to the largest input magnitude in
    /// the value's slice.
    pub(crate) max_relative_error: f64,
    /// Accuracy on held-out images, 0 to 1.
    pub(crate) accuracy: f64,
    /// Accuracy of the same training on one machine.
    pub(crate) accuracy_one_machine: f64,
    /// The bytes that the links carried.
    pub(crate) bytes: Bytes,
    /// The least that they have to carry: every tree link each value once in either
    /// direction, without headers.
    pub(crate) bound: LowerBound,
    /// Slices that workers retransmitted.
    pub(crate) retransmissions: u64,
    /// Slots of the switches over all rounds.
    pub(crate) slots: Slots,
    /// The server's counters. Unlike bytes, these do not depend on retransmissions.
    pub(crate) server: AtServer,
    /// Wall-clock time of the training, in seconds.
    pub(crate) seconds: f64,
}

/// Bytes of frames on links.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bytes {
    pub(crate) into_server: u64,
    pub(crate) out_of_server: u64,
    /// All links, both directions.
    pub(crate) all_links: u64,
    /// The direction of a link that carries most.
    pub(crate) busiest_link: u64,
}

/// The least possible bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LowerBound {
    pub(crate) into_server: u64,
    pub(crate) all_links: u64,
}

/// The numbers of slices completed in switches, and of slots released.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Slots {
    /// Number of the job's slices times the number of switches that aggregate them.
    pub(crate) used: u64,
    pub(crate) released: u64,
}

/// The server's counters over all rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AtServer {
    /// Contributions that it aggregated, each from one worker or from a switch that had aggregated several.
    pub(crate) contributions: u64,
    /// Results that it sent, without retransmissions.
    pub(crate) results: u64,
}

impl LowerBound {
    /// The bound of several rounds.
    pub(crate) fn times(self, rounds: u32) -> Self {
        let rounds = u64::from(rounds);
        Self { into_server: self.into_server * rounds, all_links: self.all_links * rounds }
    }
}
