//! Checks that all members have the same bits.
//!
//! A member that is cut off may have received the last slices of a round that the remaining members never
//! get. The remaining members then finish that round among themselves. When the cut-off member learns that
//! the job has continued without it, it takes over their state before it reduces again. So a member's sum
//! counts only after the member has continued from that sum.

use std::collections::BTreeMap;
use std::fmt;

/// The number of rounds for which a digest is kept. One member is only a few rounds behind another.
const REMEMBERED: u32 = 1000;

/// Two ranks that continued from different sums of the same round.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) round: u32,
    pub(super) ranks: [usize; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, ranks: [first, second] } = self;
        write!(f, "round {round}: ranks {second} and {first} do not have the same bits")
    }
}

/// The digest of each round, as the first member that continued from the round's sum had it.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    rounds: BTreeMap<u32, (usize, u64)>,
    /// Each rank's last round, and the digest of the sum that the rank received in it.
    last: BTreeMap<usize, (u32, u64)>,
}

impl Agreement {
    /// Notes that a rank has received a sum, and compares the rank's previous sum with the other ranks'.
    ///
    /// Only the previous sum counts, because the rank has continued from it. `digest` is the digest of the
    /// new sum.
    pub(super) fn reduced(&mut self, rank: usize, round: u32, digest: u64) -> Option<Difference> {
        let before = self.last.insert(rank, (round, digest));
        before.and_then(|(round, digest)| self.count(rank, round, digest))
    }

    /// Notes that a rank has left the job, or that its process has ended.
    ///
    /// The rank's last sum does not count.
    pub(super) fn out(&mut self, rank: usize) {
        self.last.remove(&rank);
    }

    /// Compares the last sum of each rank, too, because the run is over.
    pub(super) fn end(&mut self) -> Vec<Difference> {
        let last = std::mem::take(&mut self.last);
        last.into_iter().filter_map(|(rank, (round, digest))| self.count(rank, round, digest)).collect()
    }

    fn count(&mut self, rank: usize, round: u32, digest: u64) -> Option<Difference> {
        let (first, expected) = *self.rounds.entry(round).or_insert((rank, digest));
        let newest = self.rounds.last_key_value().map_or(round, |(newest, _)| *newest);
        self.rounds = self.rounds.split_off(&newest.saturating_sub(REMEMBERED));
        (expected != digest).then_some(Difference { round, ranks: [first, rank] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes these sums (rank, round, digest) in order, and returns the differences that they show.
    fn reduced(agreement: &mut Agreement, sums: &[(usize, u32, u64)]) -> Vec<Difference> {
        sums.iter().filter_map(|&(rank, round, digest)| agreement.reduced(rank, round, digest)).collect()
    }

    #[test]
    fn a_digest_that_differs_is_told_once_its_rank_goes_on_and_other_rounds_are_others() {
        let mut agreement = Agreement::default();
        assert_eq!(reduced(&mut agreement, &[(3, 7, 1), (0, 7, 1), (2, 7, 2), (3, 8, 5), (0, 8, 5)]), []);
        assert_eq!(agreement.reduced(2, 8, 5), Some(Difference { round: 7, ranks: [3, 2] }));
        assert_eq!(agreement.end(), []);
    }

    #[test]
    fn who_is_out_after_a_sum_does_not_go_on_from_it() {
        let mut agreement = Agreement::default();
        assert_eq!(reduced(&mut agreement, &[(1, 7, 8), (4, 7, 4), (5, 7, 4)]), []);
        agreement.out(1);
        assert_eq!(reduced(&mut agreement, &[(4, 8, 9), (5, 8, 9), (1, 9, 3), (4, 9, 3), (5, 9, 3)]), []);
        assert_eq!(agreement.end(), []);
    }

    #[test]
    fn the_last_sums_count_in_the_end() {
        let mut agreement = Agreement::default();
        assert_eq!(reduced(&mut agreement, &[(0, 7, 1), (1, 7, 2)]), []);
        assert_eq!(agreement.end(), [Difference { round: 7, ranks: [0, 1] }]);
    }

    #[test]
    fn what_is_long_ago_takes_no_memory() {
        let mut agreement = Agreement::default();
        for round in 0..5000 {
            assert_eq!(agreement.reduced(0, round, 0), None);
        }
        assert!(agreement.rounds.len() <= REMEMBERED as usize + 1);
        assert_eq!(reduced(&mut agreement, &[(1, 4500, 1), (1, 4501, 0)]).len(), 1);
    }
}
