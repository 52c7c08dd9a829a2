//! The identity of a slice and its operation, for tags.

use sha2::{Digest, Sha256};
use tributary_wire::{Operator, Rank, Seq};

use crate::numbers::{Collective, OwnedPart};

/// The identity of an operation.
/// Tags cover it, because slices of different operations must not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The operation's number. Unlike sequence numbers it does not repeat, so pads do not repeat either.
    pub(crate) operation: u64,
    /// The first slice of the operation.
    pub(crate) first: Seq,
    /// The [hash](name_hash) of the tensor's name.
    /// It reveals members that reduce equal tensors in different orders.
    pub(crate) name: u64,
    /// The number of elements of the operation.
    pub(crate) len: u64,
    /// The number of the element type.
    pub(crate) element_type: u8,
    /// The worker that sends the values of a broadcast; `None` in an all-reduce.
    pub(crate) root: Option<Rank>,
}

impl Subject {
    /// Returns all fields and the operator that combines the slices. Each has its own bits.
    pub(super) fn to_blocks(self, operator: Operator) -> [u128; 2] {
        let operator: u128 = match operator {
            Operator::Sum => 0,
            Operator::Max => 1,
            Operator::Relay => 2,
        };
        let root = self.root.map_or(0, |root| u128::from(root.get()) + 1);
        let small = root << 16 | operator << 8 | u128::from(self.element_type);
        let begin = u128::from(self.first.0) << 64 | u128::from(self.operation);
        [small << 96 | begin, u128::from(self.len) << 64 | u128::from(self.name)]
    }
}

/// The digests of an operation that the pads of its slices share, one for each operator.
/// They are computed once. Without the job's secret, they look random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubjectDigests {
    pub(super) sum: u128,
    pub(super) max: u128,
    pub(super) relay: u128,
}

/// The identity of a slice. Tags cover it, because values with different meanings must not be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning {
    /// The operation.
    pub(crate) subject: SubjectDigests,
    /// The operator that combines the slice.
    pub(crate) operator: Operator,
    /// The slice's number.
    pub(crate) seq: Seq,
    /// In a SUM slice, a [digest](super::Membership::digest) of the values from which its scales follow.
    /// Tags do not cover the values of MAX slices. If only some members received a maximum, their digests differ.
    pub(crate) scale: u64,
}

/// Returns a 64-bit hash of a tensor's name, and of the parameters of its collective.
pub(crate) fn name_hash(name: &str, collective: &Collective) -> u64 {
    let mut hash = Sha256::new_with_prefix(name);
    // No byte of UTF-8 is 254 or 255, so that no name ends like parameters.
    match collective {
        Collective::AllReduce => {}
        Collective::Broadcast { process, .. } => {
            hash.update([0xfe]);
            hash.update(process.to_be_bytes());
        }
        Collective::ReduceScatter(parts) => {
            for OwnedPart { len, owner, process } in parts {
                hash.update([0xff]);
                hash.update((*len as u64).to_be_bytes());
                hash.update(owner.get().to_be_bytes());
                hash.update(process.to_be_bytes());
            }
        }
    }
    hash.finalize().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
