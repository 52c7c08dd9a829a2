use thiserror::Error;

/// Why a message of the API does not describe a job's member.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A part that every message of its kind has is not there.
    #[error("{field} is missing")]
    Missing {
        /// The field's name in the protocol definition.
        field: &'static str,
    },
    /// A number is out of its field's range.
    #[error("{field} is {value}: {expected}")]
    OutOfRange {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// What it held.
        value: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// An address has the wrong number of bytes.
    #[error("{field} has {got} bytes instead of {expected}")]
    AddressLength {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// Bytes it has.
        got: usize,
        /// Bytes it should have.
        expected: usize,
    },
    /// An address of one host where a group's belongs, or the other way round.
    #[error("{field} is {address}, not a {expected} address")]
    AddressKind {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// The address.
        address: String,
        /// `unicast` or `multicast`.
        expected: &'static str,
    },
    /// A list breaks a rule that ties its elements together or to another field.
    #[error("{field}: {problem}")]
    Inconsistent {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// The rule and who breaks it.
        problem: String,
    },
}
