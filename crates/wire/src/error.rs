use thiserror::Error;

/// An error of parsing received bytes, or of writing a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end inside the named part of the packet.
    #[error("truncated {part}: {needed} bytes needed, {got} there")]
    Truncated {
        /// The part of the packet that is cut short.
        part: &'static str,
        /// The number of bytes that the part needs.
        needed: usize,
        /// The number of bytes present.
        got: usize,
    },
    /// A field holds an invalid number.
    #[error("bad {field}: {value:#x}")]
    Bad {
        /// The field's name.
        field: &'static str,
        /// The number that the field holds.
        value: u64,
    },
    /// The frame is well formed, but does not carry an INA message.
    #[error("not an INA frame: {0}")]
    NotIna(&'static str),
    /// The IPv4 header's checksum does not match.
    #[error("IPv4 header checksum is wrong: the frame was damaged on the way")]
    Checksum,
}
