//! Meters.

use super::CounterValue;

/// The rates of a meter in tokens per second, and its bursts in tokens.
///
/// A token is a packet or a byte, as the program declares. The peak rate is at least the committed
/// rate. A meter with a single rate has this rate in both fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterConfig {
    /// The committed rate. Packets within it are green.
    pub committed_rate: u64,
    /// The maximum burst at the committed rate.
    pub committed_burst: u64,
    /// The peak rate. Packets above it are red.
    pub peak_rate: u64,
    /// The maximum burst at the peak rate.
    pub peak_burst: u64,
    /// The burst for yellow packets of a meter with a single rate and three colours; 0 for all
    /// other meters.
    pub excess_burst: u64,
}

/// Packets and bytes that a meter has marked, by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterColours {
    /// Packets within the committed rate.
    pub green: CounterValue,
    /// Packets above the committed rate that are not red.
    pub yellow: CounterValue,
    /// Packets above the peak rate, or above the excess burst.
    pub red: CounterValue,
}
