use thiserror::Error;

/// Why a message of the API does not describe a job's member.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A required part of the message is missing.
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
        /// Its value.
        value: u64,
        /// Its valid values.
        expected: &'static str,
    },
    /// An address has the wrong number of bytes.
    #[error("{field} has {got} bytes instead of {expected}")]
    AddressLength {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// Bytes that it has.
        got: usize,
        /// Bytes that it should have.
        expected: usize,
    },
    /// A multicast address where a unicast one belongs, or the other way round.
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
        /// The rule, and the elements that break it.
        problem: String,
    },
}
