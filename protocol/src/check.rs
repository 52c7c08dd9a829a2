//! The check that tells a right sum from a wrong one.
//!
//! Each worker puts into its header, mod 2^32,
//!
//! ```text
//! Σ its values + h(what the slice is) + a(its rank) · b(seq)
//! ```
//!
//! and whoever adds values up adds the checks up, too. The receiver knows the members, so it knows what
//! the sum of their checks must be for the values that it got: Σ values + members · h + b(seq) · Σ a(rank).
//! A contribution that was lost, doubled, exchanged for another slice's or made by a member that runs
//! a different operation changes one side only.
//!
//! h, a and b are one mixer with different starting points. They need not resist an attacker (a member can
//! always lie about its gradient), only make accidents that cancel out as unlikely as 2^-32.

use tributary_wire::{Operator, Rank, Seq};

/// Fraction bits of the golden ratio: odd, with no pattern that gradients could share.
const GOLDEN: u32 = 0x9e37_79b9;
/// Fraction bits of √2, odd as well.
const ROOT: u32 = 0x6a09_e667;

/// Starting points of the hashes.
const MEANING: u32 = 1;
const RANK: u32 = 2;
const SEQ: u32 = 3;
const LOT: u32 = 4;
const NAME: u32 = 5;

/// Spreads every bit of `word` over the result. Each step can be undone, so no two words collide.
fn mix(word: u32) -> u32 {
    let word = (word ^ word >> 16).wrapping_mul(GOLDEN);
    let word = (word ^ word >> 15).wrapping_mul(ROOT);
    word ^ word >> 16
}

/// Hash of a sequence of words.
fn hash(start: u32, words: &[u32]) -> u32 {
    words.iter().fold(mix(start), |state, &word| mix(state.wrapping_mul(GOLDEN) ^ word))
}

fn rank_hash(rank: Rank) -> u32 {
    hash(RANK, &[rank.get().into()])
}

/// Odd, so that multiplying by it loses nothing.
fn seq_hash(seq: Seq) -> u32 {
    hash(SEQ, &[seq.0]) | 1
}

/// Stands for a tensor's name.
pub(crate) fn name_hash(name: &str) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    // The length tells names apart that differ in zeros at the end only.
    let length = hash(NAME, &[name.len() as u32]);
    name.as_bytes().chunks(4).map(word).fold(length, |state, word| mix(state.wrapping_mul(GOLDEN) ^ word))
}

/// Any number, but another one for each rank, slice and attempt.
pub(crate) fn lot(rank: Rank, seq: Seq, attempt: u32) -> u32 {
    hash(LOT, &[rank.get().into(), seq.0, attempt])
}

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
    /// [Hash](name_hash) of the tensor's name: members that reduce equal tensors in another order are noticed.
    pub(crate) name: u32,
    /// Elements in the whole operation.
    pub(crate) len: u64,
    /// Number of the element type.
    pub(crate) element_type: u32,
    /// In a SUM slice the bound and the total weight that its scale follows from. MAX values are not part of any
    /// check, so this is where a damaged one is noticed.
    pub(crate) scale: (u32, u32),
}

impl Meaning {
    fn hash(&self) -> u32 {
        let operator = match self.operator {
            Operator::Sum => 0,
            Operator::Max => 1,
        };
        let (len_low, len_high) = (self.len as u32, (self.len >> 32) as u32);
        let (bound, weight) = self.scale;
        let name = self.name;
        hash(
            MEANING,
            &[operator, self.operation.0, name, len_low, len_high, self.element_type, bound, weight],
        )
    }

    /// One member's check over its `values`.
    pub(crate) fn contribution(&self, rank: Rank, values: impl Iterator<Item = i32>) -> u32 {
        self.sum_of(values)
            .wrapping_add(self.hash())
            .wrapping_add(rank_hash(rank).wrapping_mul(seq_hash(self.seq)))
    }

    /// What the checks of all `members` add up to if their sum is `values`.
    pub(crate) fn expected(&self, members: Membership, values: impl Iterator<Item = i32>) -> u32 {
        self.sum_of(values)
            .wrapping_add(self.hash().wrapping_mul(members.count))
            .wrapping_add(members.rank_hashes.wrapping_mul(seq_hash(self.seq)))
    }

    /// MAX is not linear: its values are left out.
    fn sum_of(&self, values: impl Iterator<Item = i32>) -> u32 {
        match self.operator {
            Operator::Sum => values.fold(0, |sum, value| sum.wrapping_add(value.cast_unsigned())),
            Operator::Max => 0,
        }
    }
}

/// The members of one generation, as the check sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// How many.
    pub(crate) count: u32,
    /// Sum of their ranks' hashes.
    rank_hashes: u32,
}

impl Membership {
    pub(crate) fn new(members: &[Rank]) -> Self {
        let rank_hashes = members.iter().fold(0, |sum: u32, &rank| sum.wrapping_add(rank_hash(rank)));
        // Ranks are 16 bits and differ.
        Self { count: members.len() as u32, rank_hashes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANING: Meaning = Meaning {
        seq: Seq(77),
        operator: Operator::Sum,
        operation: Seq(70),
        name: 9,
        len: 1000,
        element_type: 1,
        scale: (5, 3),
    };

    fn ranks() -> Vec<Rank> {
        (0..3).map(Rank::new).collect()
    }

    /// Sums of three members' values and of their checks, as a switch makes them.
    fn summed(meanings: [Meaning; 3], ranks: [u16; 3]) -> ([i32; 2], u32) {
        let values = [[1, -2], [i32::MAX, 5], [7, 0]];
        let mut sum = ([0i32; 2], 0u32);
        for ((meaning, rank), values) in meanings.iter().zip(ranks).zip(values) {
            sum.0 = [sum.0[0].wrapping_add(values[0]), sum.0[1].wrapping_add(values[1])];
            sum.1 = sum.1.wrapping_add(meaning.contribution(Rank::new(rank), values.into_iter()));
        }
        sum
    }

    #[test]
    fn a_right_sum_has_the_expected_check() {
        let (values, check) = summed([MEANING; 3], [0, 1, 2]);
        assert_eq!(check, MEANING.expected(Membership::new(&ranks()), values.into_iter()));
    }

    #[test]
    fn accidents_are_noticed() {
        let expected = |values: [i32; 2]| MEANING.expected(Membership::new(&ranks()), values.into_iter());
        let (values, check) = summed([MEANING; 3], [0, 1, 1]);
        assert_ne!(check, expected(values), "one member twice, another not at all");
        let others = [
            Meaning { seq: Seq(78), ..MEANING },
            Meaning { operation: Seq(71), ..MEANING },
            Meaning { name: name_hash("layer 2"), ..MEANING },
            Meaning { len: 1001, ..MEANING },
            Meaning { len: 1000 + (1 << 32), ..MEANING },
            Meaning { element_type: 2, ..MEANING },
            Meaning { scale: (6, 3), ..MEANING },
            Meaning { scale: (5, 4), ..MEANING },
            Meaning { operator: Operator::Max, ..MEANING },
        ];
        for other in others {
            let (values, check) = summed([MEANING, other, MEANING], [0, 1, 2]);
            assert_ne!(check, expected(values), "{other:?}");
        }
        let (mut values, check) = summed([MEANING; 3], [0, 1, 2]);
        values[1] ^= 4;
        assert_ne!(check, expected(values), "an addition that went wrong");
    }

    #[test]
    fn names_are_told_apart() {
        let names = ["", "\0", "a", "a\0", "b", "layer 1", "layer 2", "1 layer", "layer 10"];
        let hashes: std::collections::BTreeSet<_> = names.iter().map(|name| name_hash(name)).collect();
        assert_eq!(hashes.len(), names.len());
    }

    #[test]
    fn max_does_not_depend_on_the_values() {
        let max = Meaning { operator: Operator::Max, ..MEANING };
        let (_, check) = summed([max; 3], [0, 1, 2]);
        assert_eq!(check, max.expected(Membership::new(&ranks()), [123, 456].into_iter()));
    }
}
