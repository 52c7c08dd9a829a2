//! Match fields of entries, and of the members of value sets.

/// The condition of one match field of an entry on the packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// Matches the whole value.
    Exact(Vec<u8>),
    /// Matches the bits that `mask` has set. An entry without this field matches every value.
    Ternary {
        /// The value to compare with; its bits are zero where `mask` is zero.
        value: Vec<u8>,
        /// The bits to compare; never all zeros.
        mask: Vec<u8>,
    },
    /// Matches the first `prefix_len` bits. An entry without this field matches every value.
    Lpm {
        /// The prefix; the bits behind its end are zero.
        value: Vec<u8>,
        /// The length of the prefix in bits; never zero.
        prefix_len: u32,
    },
    /// Matches from `low` to `high`, both included. An entry without this field matches every
    /// value.
    Range {
        /// The lowest value that matches.
        low: Vec<u8>,
        /// The highest value that matches.
        high: Vec<u8>,
    },
    /// Matches the whole value. An entry without this field matches every value.
    Optional(Vec<u8>),
}

/// A match field and its required value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldMatch {
    /// Id of the match field in its table (1, 2, ...).
    pub field_id: u32,
    /// The required value.
    pub key: KeyMatch,
}
