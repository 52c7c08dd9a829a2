//! Packets and counters that a worker hands to its caller.

use std::time::Duration;

use tributary_wire::Header;

/// A GRADIENT that the caller must send. The caller adds the addresses and the worker's hop stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The header of the packet.
    pub header: Header,
    /// The values of the packet; `None` in a PROBE.
    /// It requests the result of a slice that another member sends.
    pub values: Option<&'a [i32]>,
}

/// Counters of a worker since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerStats {
    /// Slices sent for the first time.
    pub sent: u64,
    /// Slices sent again, for any reason.
    pub retransmitted: u64,
    /// Results that settled their slices.
    pub results: u64,
    /// Results of slices that already had a result.
    pub duplicates: u64,
    /// Results that do not concern this worker:
    /// of another job, generation or width, for another rank, or while it was frozen.
    pub foreign: u64,
    /// Results that failed verification.
    pub mismatched: u64,
    /// Completed operations to which a member contributed NaN or infinity.
    pub not_finite: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Slices that counted as missing because results of later slices came first.
    pub gaps: u64,
    /// The smoothed round trip; `None` before the first measurement.
    pub round_trip: Option<Duration>,
    /// The present retransmission timeout, without back-off.
    pub timeout: Duration,
}

impl WorkerStats {
    /// Returns the counters of this stripe and of another one together, and the longer times.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            retransmitted: self.retransmitted + other.retransmitted,
            results: self.results + other.results,
            duplicates: self.duplicates + other.duplicates,
            foreign: self.foreign + other.foreign,
            mismatched: self.mismatched + other.mismatched,
            not_finite: self.not_finite + other.not_finite,
            timeouts: self.timeouts + other.timeouts,
            gaps: self.gaps + other.gaps,
            round_trip: self.round_trip.max(other.round_trip),
            timeout: self.timeout.max(other.timeout),
        }
    }
}
