//! Counters.

/// Value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as they came in.
    pub bytes: u64,
}
