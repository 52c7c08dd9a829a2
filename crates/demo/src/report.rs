//! The demo's results as JSON, for programs.

use serde::Serialize;

/// The demo's JSON object. Bytes count whole frames on links, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DemoReport {
    /// The number of workers.
    pub(crate) workers: usize,
    /// The number of training rounds, with one all-reduce each.
    pub(crate) rounds: u32,
    /// The number of values that each worker contributes to one all-reduce.
    pub(crate) values_per_round: usize,
    /// True if every worker got the same bits in every round and ended with the same parameters.
    pub(crate) identical_on_all_workers: bool,
    /// The largest difference from the double-precision sum, divided by the largest input magnitude in the
    /// value's slice.
    pub(crate) max_relative_error: f64,
    /// The accuracy on held-out images, from 0 to 1.
    pub(crate) accuracy: f64,
    /// The accuracy of the same training on one machine.
    pub(crate) accuracy_one_machine: f64,
    /// The bytes that the links carried.
    pub(crate) bytes: Bytes,
    /// The fewest bytes that the links must carry: each value once in both directions on each tree link,
    /// without headers.
    pub(crate) bound: LowerBound,
    /// The number of slices that workers retransmitted.
    pub(crate) retransmissions: u64,
    /// The use of the switches' slots over all rounds.
    pub(crate) slots: Slots,
    /// The server's counters. Unlike the bytes, they do not depend on retransmissions.
    pub(crate) server: AtServer,
    /// The wall-clock time of the training, in seconds.
    pub(crate) seconds: f64,
}

/// Bytes of frames on links.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bytes {
    pub(crate) into_server: u64,
    pub(crate) out_of_server: u64,
    /// Bytes on all links in both directions.
    pub(crate) all_links: u64,
    /// Bytes in the busiest direction of any link.
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
    /// The number of the job's slices times the number of switches that aggregate them.
    pub(crate) used: u64,
    pub(crate) released: u64,
}

/// The server's counters over all rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AtServer {
    /// Contributions that the server aggregated. Each comes from one worker, or from a switch that has
    /// aggregated several.
    pub(crate) contributions: u64,
    /// Results that the server sent, without retransmissions.
    pub(crate) results: u64,
}

impl LowerBound {
    /// Returns the bound for `rounds` rounds.
    pub(crate) fn times(self, rounds: u32) -> Self {
        let rounds = u64::from(rounds);
        Self { into_server: self.into_server * rounds, all_links: self.all_links * rounds }
    }
}
