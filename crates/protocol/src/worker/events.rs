//! Events and counters that a worker hands to its caller.

use std::time::Duration;

use tributary_wire::Header;

/// A GRADIENT to be sent: the caller puts the worker's hop stack and addresses around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its header.
    pub header: Header,
    /// Its values.
    pub values: &'a [i32],
}

/// Counters of a worker since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerStats {
    /// Slices sent for the first time.
    pub sent: u64,
    /// Slices sent again, for whatever reason.
    pub retransmitted: u64,
    /// Results that were awaited, and right.
    pub results: u64,
    /// Results that were there already.
    pub duplicates: u64,
    /// Results that this worker did not await: of another job, generation or width, for another
    /// rank, or while frozen.
    pub foreign: u64,
    /// Results that failed verification.
    pub mismatched: u64,
    /// Completed operations to which a member contributed NaN or infinity.
    pub not_finite: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Slices that counted as lost because results of later ones came first.
    pub gaps: u64,
    /// Smoothed round trip, once one was measured.
    pub round_trip: Option<Duration>,
    /// The retransmission timeout at present, without back-off.
    pub timeout: Duration,
}
