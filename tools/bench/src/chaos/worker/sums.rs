//! Contributions whose sum alone shows its contributors.
//!
//! Element i of rank r's contribution in a round is `mark(r, i) + value(r, round, i)`. The value is small,
//! and differs for every rank, round and element, so that a mix-up is always noticed. The mark is one bit far
//! above all values. Each element has the marks of eight ranks, and neighbouring elements have the marks of
//! the other ranks. So the upper bits of a sum name its contributors. The lower bits must then be the sum of
//! exactly these ranks' values. The check fails if a contribution is missing, doubled, stale or of another
//! rank. All numbers are integers that f32 and the fabric's fixed point represent exactly.
//!
//! With more than eight ranks, a rank's elements without its mark are small beside those with it, so that the
//! values need further limbs. A rank that leaves before their rest slices does not count as a contributor
//! (section 9.5 of the specification). Its values are in the sum all the same, because the first limb has the
//! unit 1 or less.

use std::fmt;
use std::ops::Range;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_client::Run;

/// The largest number of ranks.
/// The sum of their values must stay below a mark, and the sum of all marks below 2^24.
pub(in crate::chaos) const MAX_RANKS: u32 = 64;
/// The number of different values. They are -64 to 63; the sum of 64 of them is -4096 to 4032.
const VALUE_RANGE: u8 = 128;
const HALF_VALUE_RANGE: i32 = 64;
/// The bit of the lowest mark. It lies above every sum of values, including the sum's sign.
const MARK_SHIFT: u32 = 13;
const HALF_MARK: i32 = 1 << (MARK_SHIFT - 1);
/// The number of ranks whose marks are in each element.
const MARKS: u32 = 8;
/// Length of the table of random values, a power of two.
/// A rank's values in a round start at an offset in this table.
const TABLE: usize = 1 << 17;

/// The contributions of all ranks in all rounds.
#[derive(Debug)]
pub(super) struct Contributions {
    table: Vec<i8>,
    /// The number of ranks that the job can have.
    ranks: u32,
}

/// The description of a wrong sum.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Contributions {
    /// Creates the contributions for jobs of `ranks` ranks, at most [`MAX_RANKS`].
    pub(super) fn new(ranks: u32) -> Self {
        // All ranks use this seed.
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut value = || (random.next_u32() as u8 % VALUE_RANGE) as i8 - HALF_VALUE_RANGE as i8;
        Self { table: (0..TABLE).map(|_| value()).collect(), ranks: ranks.min(MAX_RANKS) }
    }

    /// Fills `elements` with the contribution of `rank` in a round.
    pub(super) fn fill(&self, elements: &mut [f32], rank: u32, round: u32) {
        let start = start(rank, round);
        for (index, element) in elements.iter_mut().enumerate() {
            *element = (self.mark(rank, index) + self.value(start, index)) as f32;
        }
    }

    /// Checks a sum.
    ///
    /// # Errors
    /// The first element that is not the sum over its contributors, or a run whose number of contributors is
    /// wrong.
    pub(super) fn check(&self, sums: &[f32], runs: &[Run], round: u32) -> Result<(), Wrong> {
        let mut place = 0;
        for run in runs {
            let end = place + usize::try_from(run.elements).unwrap_or(usize::MAX).min(sums.len());
            if end > sums.len() {
                break;
            }
            self.check_run(sums, place..end, run, round)?;
            place = end;
        }
        if place == sums.len() {
            return Ok(());
        }
        Err(Wrong(format!("the runs cover at least {place} elements, but the tensor has {}", sums.len())))
    }

    fn check_run(&self, sums: &[f32], place: Range<usize>, run: &Run, round: u32) -> Result<(), Wrong> {
        let inside = self.inside(sums, place.clone());
        let members = inside.len();
        let has_limbs = self.groups() > 1;
        let contributors = run.contributors as usize;
        let fits = contributors == members || (has_limbs && (1..members).contains(&contributors));
        if !fits || members != run.weight as usize {
            return Err(Wrong(format!(
                "elements {} to {} contain the sum over ranks {inside:?}, but their run reports {} contributors, \
                 weight {}",
                place.start,
                place.end.saturating_sub(1),
                run.contributors,
                run.weight
            )));
        }
        let marks = |group| inside.iter().map(|&rank| self.mark(rank, group)).sum::<i32>();
        let marks: Vec<_> = (0..self.groups()).map(marks).collect();
        let starts: Vec<_> = inside.iter().map(|&rank| start(rank, round)).collect();
        for index in place {
            let values: i32 = starts.iter().map(|&start| self.value(start, index)).sum();
            let expected = marks[index % marks.len()] + values;
            if sums[index].to_bits() != (expected as f32).to_bits() {
                let sum = sums[index];
                return Err(Wrong(format!(
                    "element {index} is {sum}, not {expected}, over ranks {inside:?}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the ranks whose marks are in a sum. These ranks are its contributors.
    fn inside(&self, sums: &[f32], place: Range<usize>) -> Vec<u32> {
        let marks = |index: usize| (sums[index] as i32 + HALF_MARK) >> MARK_SHIFT;
        let group = |rank: u32| place.clone().find(|&index| self.is_marked(rank, index));
        let has = |rank: &u32| group(*rank).is_some_and(|index| marks(index) >> (rank % MARKS) & 1 == 1);
        (0..self.ranks).filter(has).collect()
    }

    /// Returns true if the element has `rank`'s mark.
    fn is_marked(&self, rank: u32, index: usize) -> bool {
        index % self.groups() == (rank / MARKS) as usize
    }

    /// Returns the number of neighbouring elements over which the marks of all ranks are spread.
    ///
    /// A slice has more elements than this.
    fn groups(&self) -> usize {
        self.ranks.div_ceil(MARKS).max(1) as usize
    }

    fn mark(&self, rank: u32, index: usize) -> i32 {
        if self.is_marked(rank, index) { 1 << (MARK_SHIFT + rank % MARKS) } else { 0 }
    }

    fn value(&self, start: usize, index: usize) -> i32 {
        i32::from(self.table[(start + index) % TABLE])
    }
}

/// Returns the offset in the table at which a rank's values of a round start, by a multiplicative hash.
fn start(rank: u32, round: u32) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = ((u64::from(rank) << 32) | u64::from(round)).wrapping_add(1).wrapping_mul(GOLDEN);
    (hash >> 40) as usize % TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum over the ranks `inside`, with its run.
    fn sum(all: u32, inside: &[u32], round: u32, elements: usize) -> (Vec<f32>, Run) {
        let contributions = Contributions::new(all);
        let mut sums = vec![0.0; elements];
        for &rank in inside {
            let mut own = vec![0.0; elements];
            contributions.fill(&mut own, rank, round);
            sums.iter_mut().zip(&own).for_each(|(sum, own)| *sum += own);
        }
        let members = inside.len() as u32;
        (sums, Run { elements: elements as u64, weight: members, contributors: members })
    }

    fn check(all: u32, sums: &[f32], runs: &[Run], round: u32) -> Result<(), Wrong> {
        Contributions::new(all).check(sums, runs, round)
    }

    #[test]
    fn parts_of_a_sum_may_be_over_different_members() {
        let (all, first) = sum(8, &[0, 1, 2, 3, 4, 5, 6, 7], 5, 256);
        let (some, then) = sum(8, &[0, 1, 2, 4, 5, 6, 7], 5, 512);
        let joined = [&all[..], &some[256..]].concat();
        let then = Run { elements: 256, ..then };
        assert_eq!(check(8, &joined, &[first, then], 5), Ok(()));
        assert!(check(8, &joined, &[Run { elements: 512, ..first }], 5).is_err());
        assert!(check(8, &joined, &[first], 5).is_err(), "not all of it");
        assert!(check(8, &joined, &[first, Run { elements: u64::MAX, ..then }], 5).is_err());
    }

    #[test]
    fn what_is_missing_doubled_stale_or_swapped_does_not_fit() {
        let (right, run) = sum(8, &[0, 2, 7], 9, 512);
        assert_eq!(check(8, &right, &[run], 9), Ok(()));
        assert!(check(8, &right, &[run], 10).is_err(), "an older round's");
        assert!(check(8, &right, &[Run { contributors: 2, ..run }], 9).is_err());
        assert!(check(8, &right, &[Run { weight: 4, ..run }], 9).is_err());
        let (one, _) = sum(8, &[2], 9, 512);
        let doubled: Vec<_> = right.iter().zip(&one).map(|(sum, again)| sum + again).collect();
        assert!(check(8, &doubled, &[run], 9).is_err());
        assert!(check(8, &doubled, &[Run { contributors: 4, weight: 4, ..run }], 9).is_err());
        let mut swapped = right.clone();
        swapped.rotate_left(256);
        assert!(check(8, &swapped, &[run], 9).is_err());
        let mut nearly = right;
        nearly[300] += 1.0;
        let wrong = check(8, &nearly, &[run], 9).unwrap_err().to_string();
        assert!(wrong.contains("element 300") && wrong.contains("[0, 2, 7]"), "{wrong}");
    }

    #[test]
    fn a_rank_that_leaves_before_the_rest_slices_is_no_contributor() {
        let inside: Vec<_> = (0..16).collect();
        let (right, run) = sum(16, &inside, 3, 512);
        assert_eq!(check(16, &right, &[Run { contributors: 12, ..run }], 3), Ok(()));
        assert!(check(16, &right, &[Run { contributors: 0, ..run }], 3).is_err());
        assert!(check(16, &right, &[Run { contributors: 17, ..run }], 3).is_err());
        assert!(check(16, &right, &[Run { contributors: 12, weight: 12, ..run }], 3).is_err());
    }

    #[test]
    fn every_sum_over_some_ranks_is_right_and_says_over_which() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for all in 1..=MAX_RANKS {
            let (some, round) = (random.next_u64(), random.next_u32());
            let inside: Vec<_> = (0..all).filter(|rank| some >> rank & 1 == 1).collect();
            let (sums, run) = sum(all, &inside, round, 64);
            assert_eq!(check(all, &sums, &[run], round), Ok(()), "{inside:?} of {all}");
            assert_eq!(Contributions::new(all).inside(&sums, 0..64), inside);
        }
    }
}
