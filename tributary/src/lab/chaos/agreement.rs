//! Whether all members have the same bits.

use std::collections::BTreeMap;

/// How many rounds after one its digest is still remembered: a member can be late by as much as others' sums can be
/// ahead, which is little.
const REMEMBERED: u32 = 1000;

/// The digest of each round, as the first member had it.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    rounds: BTreeMap<u32, (usize, u64)>,
}

impl Agreement {
    /// A rank has a sum with this digest. `Some`: the rank that has another one of the same round.
    pub(super) fn differs(&mut self, rank: usize, round: u32, digest: u64) -> Option<usize> {
        let (first, expected) = *self.rounds.entry(round).or_insert((rank, digest));
        let newest = self.rounds.last_key_value().map_or(round, |(newest, _)| *newest);
        self.rounds = self.rounds.split_off(&newest.saturating_sub(REMEMBERED));
        (expected != digest).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_differs_is_told_and_other_rounds_are_others() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.differs(3, 7, 1), None);
        assert_eq!(agreement.differs(0, 8, 2), None);
        assert_eq!(agreement.differs(1, 7, 1), None);
        assert_eq!(agreement.differs(2, 7, 2), Some(3));
    }

    #[test]
    fn what_is_long_ago_takes_no_memory() {
        let mut agreement = Agreement::default();
        for round in 0..5000 {
            assert_eq!(agreement.differs(0, round, 0), None);
        }
        assert!(agreement.rounds.len() <= REMEMBERED as usize + 1);
        assert_eq!(agreement.differs(1, 4500, 1), Some(0));
    }
}
