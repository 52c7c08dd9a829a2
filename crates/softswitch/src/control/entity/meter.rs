//! Meters.

use super::CounterValue;

/// The rates of a meter: tokens a second, packets or bytes as the program says, and the most tokens at
/// once. The peak rate is not below the committed one; a meter with a single rate has it as the peak rate, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterConfig {
    /// Packets within it are green.
    pub committed_rate: u64,
    /// The committed rate's burst.
    pub committed_burst: u64,
    /// Packets above it are red.
    pub peak_rate: u64,
    /// The peak rate's burst.
    pub peak_burst: u64,
    /// The burst that a single rate of three colours has for yellow packets; 0 for all other meters.
    pub excess_burst: u64,
}

/// Packets and bytes that a meter has marked, by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterColours {
    /// Within the committed rate.
    pub green: CounterValue,
    /// Above that.
    pub yellow: CounterValue,
    /// Above the peak rate, or the excess burst.
    pub red: CounterValue,
}
