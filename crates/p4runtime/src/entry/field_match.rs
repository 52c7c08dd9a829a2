//! The match of one field of a key.

use std::fmt;

/// The match of one field of a key. A key omits a field that may have any value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Exactly this.
    Exact(u128),
    /// The first `prefix` bits must equal those of the value; the value's other bits are 0.
    Lpm {
        /// The bits.
        value: u128,
        /// Number of bits that count; at least 1.
        prefix: u32,
    },
    /// The bits that are set in the mask must equal those of the value; the value's other bits are 0.
    Ternary {
        /// The bits.
        value: u128,
        /// Which bits count; not 0.
        mask: u128,
    },
    /// From `low` to `high`, both included.
    Range {
        /// The smallest.
        low: u128,
        /// The largest.
        high: u128,
    },
    /// Exactly this, in a field that other entries may leave out.
    Optional(u128),
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(value) | Self::Optional(value) => write!(f, "{value}"),
            Self::Lpm { value, prefix } => write!(f, "{value:#x}/{prefix}"),
            Self::Ternary { value, mask } => write!(f, "{value:#x}&{mask:#x}"),
            Self::Range { low, high } => write!(f, "{low}..={high}"),
        }
    }
}
