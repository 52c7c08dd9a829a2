use thiserror::Error;

/// Reasons why a message of the API does not describe a member of a job.
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
        /// The field's value.
        value: u64,
        /// A description of the field's valid values.
        expected: &'static str,
    },
    /// An address has the wrong number of bytes.
    #[error("{field} has {got} bytes instead of {expected}")]
    AddressLength {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// The number of bytes of the address.
        got: usize,
        /// The number of bytes that the address should have.
        expected: usize,
    },
    /// The address is multicast where a unicast address is required, or the reverse.
    #[error("{field} is {address}, not a {expected} address")]
    AddressKind {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// The address.
        address: String,
        /// `unicast` or `multicast`.
        expected: &'static str,
    },
    /// A list breaks a rule about its elements or about its relation to another field.
    #[error("{field}: {problem}")]
    Inconsistent {
        /// The field's name in the protocol definition.
        field: &'static str,
        /// The rule, and the elements that break it.
        problem: String,
    },
}
