//! What the demo found, for programs.

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
    /// Every worker got the same bits in every round, and ended with the same parameters.
    pub(crate) identical_on_all_workers: bool,
    /// The largest difference from the sum in double precision, relative to the largest input magnitude in
    /// the value's slice.
    pub(crate) max_relative_error: f64,
    /// On held-out images, 0 to 1.
    pub(crate) accuracy: f64,
    /// That of the same training on one machine.
    pub(crate) accuracy_one_machine: f64,
    /// What the links carried.
    pub(crate) bytes: Bytes,
    /// What they have to carry at least: every tree link each value once in either direction, no headers.
    pub(crate) bound: Bound,
    /// Slices that workers sent again.
    pub(crate) retransmissions: u64,
    /// Slots of the switches over all rounds.
    pub(crate) slots: Slots,
    /// What the server did. Unlike bytes, this does not depend on what was sent again.
    pub(crate) server: AtServer,
    /// Wall time of the training.
    pub(crate) seconds: f64,
}

/// Frames' bytes on links.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bytes {
    pub(crate) into_server: u64,
    pub(crate) out_of_server: u64,
    /// Every link, both directions.
    pub(crate) all_links: u64,
    /// The direction of a link that carries most.
    pub(crate) busiest_link: u64,
}

/// The least bytes that there can be.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bound {
    pub(crate) into_server: u64,
    pub(crate) all_links: u64,
}

/// How often a slice was completed in a switch, and how often its slot was released.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Slots {
    /// Slices of the job, times the switches that add it up.
    pub(crate) used: u64,
    pub(crate) released: u64,
}

/// What the server did over all rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct AtServer {
    /// Contributions that it aggregated: of a worker each, or of a switch that had aggregated several.
    pub(crate) contributions: u64,
    /// Results that it sent, those that it sent again left out.
    pub(crate) results: u64,
}

impl Bound {
    /// The bound of several rounds.
    pub(crate) fn times(self, rounds: u32) -> Self {
        let rounds = u64::from(rounds);
        Self { into_server: self.into_server * rounds, all_links: self.all_links * rounds }
    }
}
