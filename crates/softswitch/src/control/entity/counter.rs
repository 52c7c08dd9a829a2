//! Counters.

/// Value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Number of packets.
    pub packets: u64,
    /// Length of these packets in bytes, as received.
    pub bytes: u64,
}
