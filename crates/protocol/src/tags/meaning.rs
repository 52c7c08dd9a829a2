//! The identity of a slice and its operation, for tags.

use sha2::{Digest, Sha256};
use tributary_wire::{Operator, Seq};

/// The identity of an operation: slices of different operations must not be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The operation's number. Unlike sequence numbers it does not repeat, so pads do not repeat either.
    pub(crate) operation: u64,
    /// Its first slice.
    pub(crate) first: Seq,
    /// The [hash](name_hash) of the tensor's name.
    /// Members that reduce equal tensors in another order are noticed.
    pub(crate) name: u64,
    /// Elements in the whole operation.
    pub(crate) len: u64,
    /// Number of the element type.
    pub(crate) element_type: u8,
}

impl Subject {
    /// Returns all fields and the operator that combines the slices, each in bits of its own.
    pub(super) fn to_blocks(self, operator: Operator) -> [u128; 2] {
        let operator: u128 = match operator {
            Operator::Sum => 0,
            Operator::Max => 1,
        };
        let small = operator << 8 | u128::from(self.element_type);
        let begin = u128::from(self.first.0) << 64 | u128::from(self.operation);
        [small << 96 | begin, u128::from(self.len) << 64 | u128::from(self.name)]
    }
}

/// The digests that the pads of an operation's slices have in common, one for each operator.
/// They are computed once, and are as good as random without the job's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubjectDigests {
    pub(super) sum: u128,
    pub(super) max: u128,
}

/// The identity of a slice: values that mean different things must not be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The operation.
    pub(crate) subject: SubjectDigests,
    /// The operator that combines the slice.
    pub(crate) operator: Operator,
    /// The slice's number.
    pub(crate) seq: Seq,
    /// In a SUM slice a [digest](super::Membership::digest) of what its scales follow from.
    /// MAX values are not part of any tag, so a maximum that only some members got is noticed here.
    pub(crate) scale: u64,
}

/// The number that stands for a tensor's name.
pub(crate) fn name_hash(name: &str) -> u64 {
    Sha256::digest(name).iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
