//! The condition of a table entry on one field of its key.

use std::fmt;

/// The condition of a table entry on one field of its key. A key omits a field that may have any
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// The field must be equal to this value.
    Exact(u128),
    /// The first `prefix` bits of the field must be equal to the first bits of the value; the other
    /// bits of the value are 0.
    Lpm {
        /// The value to compare with.
        value: u128,
        /// Number of bits to compare; at least 1.
        prefix: u32,
    },
    /// The bits that are set in the mask must be equal in the field and the value; the other bits
    /// of the value are 0.
    Ternary {
        /// The value to compare with.
        value: u128,
        /// The bits to compare; not 0.
        mask: u128,
    },
    /// The field must be between `low` and `high`, both included.
    Range {
        /// The smallest value that matches.
        low: u128,
        /// The largest value that matches.
        high: u128,
    },
    /// The field must be equal to this value. Other entries of the table may omit the field.
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
