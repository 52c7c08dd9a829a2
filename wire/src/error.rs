use thiserror::Error;

/// Why received bytes are not a packet of ours, or a representation cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end before the part named does.
    #[error("truncated {part}: {needed} bytes needed, {got} there")]
    Truncated {
        /// The part of the packet that is cut short.
        part: &'static str,
        /// Bytes that the part needs.
        needed: usize,
        /// Bytes that are there.
        got: usize,
    },
    /// A field holds a number that has no meaning here.
    #[error("bad {field}: {value:#x}")]
    Bad {
        /// The field's name.
        field: &'static str,
        /// What it held.
        value: u64,
    },
    /// The frame is well formed but carries something else than an INA message.
    #[error("not an INA frame: {0}")]
    NotIna(&'static str),
    /// The IPv4 header's checksum does not match.
    #[error("IPv4 header checksum is wrong: the frame was damaged on the way")]
    Checksum,
}
