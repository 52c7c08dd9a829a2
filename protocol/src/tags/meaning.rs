//! What a slice is.

use sha2::{Digest, Sha256};
use tributary_wire::{Operator, Seq};

/// What a slice is: members whose values mean different things must not be added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The slice's number.
    pub(crate) seq: Seq,
    /// How it is combined.
    pub(crate) operator: Operator,
    /// Where its operation began. It names the operation: a count of operations would not do, since one
    /// who joins later does not know it.
    pub(crate) operation: Seq,
    /// [Stands](name_hash) for the tensor's name: members that reduce equal tensors in another order are noticed.
    pub(crate) name: u64,
    /// Elements in the whole operation.
    pub(crate) len: u64,
    /// Number of the element type.
    pub(crate) element_type: u8,
    /// In a SUM slice the bound and the total weight that its scale follows from. MAX values are not part of any
    /// tag, so this is where one that only some members got is noticed.
    pub(crate) scale: (u32, u32),
}

impl Meaning {
    /// Everything but the slice's number, each field at its own place.
    pub(super) fn to_blocks(self) -> [u128; 2] {
        let operator: u128 = match self.operator {
            Operator::Sum => 0,
            Operator::Max => 1,
        };
        let (bound, weight) = self.scale;
        let small = operator << 8 | u128::from(self.element_type);
        let words = u128::from(self.operation.0) << 64 | u128::from(bound) << 32 | u128::from(weight);
        [small << 96 | words, u128::from(self.len) << 64 | u128::from(self.name)]
    }
}

/// Stands for a tensor's name.
pub(crate) fn name_hash(name: &str) -> u64 {
    Sha256::digest(name).iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
