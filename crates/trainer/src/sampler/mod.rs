//! The choice of the samples that each worker processes in each step, while members change.
//!
//! Each worker has a shard of the data ([`Shards`]). The epochs of a shard, each a permutation of its samples, follow
//! one another in an endless sequence. A step takes the next `batch` samples from each shard *in use*, concatenates
//! them in the order of the shards, and splits them among the members as equally as possible. The consequences are:
//!
//! * If all workers are members, or if some workers are *detached* (their shards are not in use), each member has the
//!   samples of its own shard.
//! * If workers are excluded and their data are shared (*shrink*: their shards are in use), each of the m members has
//!   batch · N / m samples.
//! * For any members, each sample of a shard in use is taken once in each epoch, and no sample of another shard is
//!   taken. When a shard comes back into use, it continues where it stopped.
//!
//! The samples depend only on the steps that were done and the members of each step. Members agree on both without
//! messages, because they receive a change at the same position in the order of their all-reduces (`Regroup` of
//! `tributary-client`). A member that joins takes the [`state`](Sampler::state) of the others.
//!
//! ```
//! use tributary_trainer::{Sampler, Shards};
//! # fn main() -> Result<(), tributary_trainer::TrainerError> {
//! let mut sampler = Sampler::new(Shards::alike(1000, 4, 1)?, 30, 1)?;
//! let mine = sampler.samples(2); // 30 of worker 2's shard, for this step
//! sampler.advance(); // the step is made
//! sampler.regroup(&[0, 1, 3], &[0, 1, 2, 3])?; // worker 2 is left out, and the others share its data
//! assert_eq!(sampler.samples(3).len(), 40);
//! # assert_eq!(mine.len(), 30);
//! # Ok(()) }
//! ```

mod shards;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::error::TrainerError;
pub use shards::Shards;
use shards::piece;

/// The number of values that encode one number in a state.
/// Each has 16 bits, which f32 and the fabric's fixed point represent exactly.
const DIGITS: usize = 4;
const DIGIT: u64 = 1 << 16;

/// Chooses samples. The samplers of all members of a training are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    shards: Shards,
    seed: u64,
    batch: usize,
    /// The members, in ascending order.
    members: Vec<u16>,
    /// The shards in use, in ascending order. They include the shards of all members.
    used: Vec<u16>,
    /// The number of samples that were taken from each shard's sequence.
    taken: Vec<u64>,
}

impl Sampler {
    /// Makes a sampler before the first step, with all workers as members.
    /// Each shard contributes `batch` samples to a step. The seed determines their order.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoSamples`] if `batch` is 0.
    pub fn new(shards: Shards, batch: usize, seed: u64) -> Result<Self, TrainerError> {
        if batch == 0 {
            return Err(TrainerError::NoSamples);
        }
        let all: Vec<u16> = (0..).zip(0..shards.len()).map(|(worker, _)| worker).collect();
        let taken = vec![0; shards.len()];
        Ok(Self { shards, seed, batch, members: all.clone(), used: all, taken })
    }

    /// Returns the samples of this step that a worker processes.
    ///
    /// A worker that is not a member gets the next samples of its own shard. The time that it takes for them shows its
    /// speed.
    pub fn samples(&self, worker: u16) -> Vec<usize> {
        let Ok(place) = self.members.binary_search(&worker) else { return self.next_of(worker) };
        let all = self.batch * self.used.len();
        let mine = piece(all, place, self.members.len());
        // Only shards with samples of this worker are needed.
        let first = mine.start / self.batch;
        let last = mine.end.div_ceil(self.batch);
        let from_first = self.used[first..last].iter().flat_map(|shard| self.next_of(*shard));
        from_first.skip(mine.start - first * self.batch).take(mine.len()).collect()
    }

    /// Returns the number of samples that all members process in this step together.
    pub fn total(&self) -> usize {
        self.batch * self.used.len()
    }

    /// Ends the step.
    pub fn advance(&mut self) {
        for shard in &self.used {
            self.taken[usize::from(*shard)] += self.batch as u64;
        }
    }

    /// Sets the members, and the shards whose data they process, from this step on.
    /// A `Regroup` names both. Both must be ascending.
    ///
    /// # Errors
    ///
    /// [`TrainerError::BadGroup`] if a list is not ascending, the list of members is empty, a worker does not exist, or
    /// a member's shard is not in use. The sampler is then unchanged.
    pub fn regroup(&mut self, members: &[u16], shards: &[u16]) -> Result<(), TrainerError> {
        let bad = |problem: String| Err(TrainerError::BadGroup { problem });
        for ranks in [members, shards] {
            if !ranks.is_sorted_by(|a, b| a < b) {
                return bad(format!("{ranks:?} do not ascend"));
            }
            if let Some(stranger) = ranks.iter().find(|rank| usize::from(**rank) >= self.shards.len()) {
                return bad(format!("there is no worker {stranger} of {}", self.shards.len()));
            }
        }
        if members.is_empty() {
            return bad("nobody is in it".to_owned());
        }
        if let Some(idle) = members.iter().find(|member| shards.binary_search(member).is_err()) {
            return bad(format!("the data of its member {idle} are not used"));
        }
        (self.members, self.used) = (members.to_vec(), shards.to_vec());
        Ok(())
    }

    /// Returns the state that a new member needs for [`restore`](Self::restore), in addition to the
    /// members.
    /// It consists of whole numbers below 65536, which an all-reduce keeps exactly.
    pub fn state(&self) -> Vec<f32> {
        self.taken.iter().flat_map(|taken| digits(*taken)).collect()
    }

    /// Returns the number of values in a state.
    pub fn state_len(&self) -> usize {
        self.taken.len() * DIGITS
    }

    /// Replaces the state with the state of another sampler of the same shards.
    ///
    /// # Errors
    ///
    /// [`TrainerError::BadState`] if this is not a state of such a sampler. The sampler is then unchanged.
    pub fn restore(&mut self, state: &[f32]) -> Result<(), TrainerError> {
        let (numbers, rest) = state.as_chunks::<DIGITS>();
        if numbers.len() != self.taken.len() || !rest.is_empty() {
            return Err(TrainerError::BadState);
        }
        self.taken = numbers.iter().map(number).collect::<Option<_>>().ok_or(TrainerError::BadState)?;
        Ok(())
    }

    /// Returns the samples of a shard in this step.
    fn next_of(&self, shard: u16) -> Vec<usize> {
        let samples = self.shards.of(shard);
        if samples.is_empty() {
            return Vec::new();
        }
        let len = samples.len() as u64;
        let start = self.taken[usize::from(shard)];
        let (mut epoch, mut skip) = (start / len, (start % len) as usize);
        let mut next = Vec::with_capacity(self.batch);
        while next.len() < self.batch {
            let missing = self.batch - next.len();
            next.extend(self.permutation(shard, epoch).into_iter().skip(skip).take(missing));
            (epoch, skip) = (epoch + 1, 0);
        }
        next
    }

    /// Returns the order of a shard's samples in one of its epochs.
    fn permutation(&self, shard: u16, epoch: u64) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Stream 0 is used for the initial weights.
        let stream = epoch.wrapping_mul(self.shards.len() as u64).wrapping_add(u64::from(shard));
        random.set_stream(stream.wrapping_add(1));
        let mut order = self.shards.of(shard).to_vec();
        order.shuffle(&mut random);
        order
    }
}

/// Encodes a number as values that an all-reduce keeps exactly.
pub(crate) fn digits(number: u64) -> [f32; DIGITS] {
    let mut left = number;
    std::array::from_fn(|_| {
        let digit = left % DIGIT;
        left /= DIGIT;
        digit as f32
    })
}

/// Decodes a number; `None` if the values do not encode one.
pub(crate) fn number(digits: &[f32; DIGITS]) -> Option<u64> {
    let is_digit = |digit: &f32| digit.fract() == 0.0 && (0.0..DIGIT as f32).contains(digit);
    let all = digits.iter().all(is_digit);
    all.then(|| digits.iter().rev().fold(0, |number, digit| number * DIGIT + *digit as u64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A number of steps with fixed members and shards.
    #[derive(Debug, Clone)]
    struct Stretch {
        members: Vec<u16>,
        used: Vec<u16>,
        steps: usize,
    }

    fn stretches(workers: u16) -> impl Strategy<Value = Vec<Stretch>> {
        let ranks: Vec<u16> = (0..workers).collect();
        let members = proptest::sample::subsequence(ranks.clone(), 1..=ranks.len());
        let shared = proptest::sample::subsequence(ranks.clone(), 0..=ranks.len());
        let stretch = (members, shared, 0usize..12).prop_map(|(members, shared, steps)| {
            let used: BTreeSet<u16> = members.iter().chain(&shared).copied().collect();
            Stretch { members, used: used.into_iter().collect(), steps }
        });
        proptest::collection::vec(stretch, 1..12)
    }

    fn course() -> impl Strategy<Value = (u16, usize, usize, u64, Vec<Stretch>)> {
        (1u16..9).prop_flat_map(|workers| {
            (Just(workers), usize::from(workers)..120, 1usize..20, any::<u64>(), stretches(workers))
        })
    }

    proptest! {
        /// For any changes, no sample is lost or repeated within its shard's epoch.
        /// No sample is taken from a shard that is not in use.
        #[test]
        fn every_sample_of_the_shards_in_use_is_taken_once_an_epoch(
            (workers, samples, batch, seed, stretches) in course(),
        ) {
            let shards = Shards::alike(samples, workers, seed).unwrap();
            let mut sampler = Sampler::new(shards.clone(), batch, seed).unwrap();
            let mut rows: Vec<Vec<usize>> = vec![Vec::new(); usize::from(workers)];
            for Stretch { members, used, steps } in stretches {
                sampler.regroup(&members, &used).unwrap();
                for _ in 0..steps {
                    let taken: Vec<Vec<usize>> = members.iter().map(|member| sampler.samples(*member)).collect();
                    let sizes = || taken.iter().map(Vec::len);
                    prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1, "{:?}", taken);
                    prop_assert_eq!(sizes().sum::<usize>(), sampler.total());
                    for (place, sample) in taken.concat().into_iter().enumerate() {
                        let shard = used[place / batch];
                        prop_assert!(shards.of(shard).contains(&sample));
                        rows[usize::from(shard)].push(sample);
                    }
                    sampler.advance();
                }
            }
            for (shard, row) in (0..).zip(&rows) {
                for epoch in row.chunks(shards.of(shard).len()) {
                    let distinct: BTreeSet<_> = epoch.iter().collect();
                    prop_assert_eq!(distinct.len(), epoch.len(), "shard {}", shard);
                }
            }
        }

        /// A new member continues exactly like the earlier members.
        #[test]
        fn a_state_is_all_that_a_newcomer_needs((workers, samples, batch, seed, stretches) in course()) {
            let shards = Shards::alike(samples, workers, seed).unwrap();
            let mut there = Sampler::new(shards.clone(), batch, seed).unwrap();
            for Stretch { members, used, steps } in stretches {
                there.regroup(&members, &used).unwrap();
                (0..steps).for_each(|_| there.advance());
                let mut newcomer = Sampler::new(shards.clone(), batch, seed).unwrap();
                newcomer.restore(&there.state()).unwrap();
                newcomer.regroup(&members, &used).unwrap();
                prop_assert_eq!(&newcomer, &there);
            }
        }

        #[test]
        fn a_number_survives_its_digits(all: u64) {
            prop_assert_eq!(number(&digits(all)), Some(all));
        }
    }

    fn sampler() -> Sampler {
        Sampler::new(Shards::alike(80, 8, 3).unwrap(), 4, 3).unwrap()
    }

    #[test]
    fn with_everyone_in_or_some_detached_each_has_its_own_shard() {
        let mut sampler = sampler();
        let own = |sampler: &Sampler, worker| {
            sampler.samples(worker).iter().all(|sample| sampler.shards.of(worker).contains(sample))
        };
        assert!((0..8).all(|worker| own(&sampler, worker)));
        let others = [0, 1, 2, 4, 5, 6, 7];
        sampler.regroup(&others, &others).unwrap();
        assert!((0..8).all(|worker| own(&sampler, worker) && sampler.samples(worker).len() == 4));
        // A worker that is not a member keeps the same samples until it becomes one.
        let waiting = sampler.samples(3);
        sampler.advance();
        assert_eq!(sampler.samples(3), waiting);
    }

    #[test]
    fn what_is_no_group_or_no_state_is_refused_and_changes_nothing() {
        let mut sampler = sampler();
        let before = sampler.clone();
        let mut refused =
            |members: &[u16], shards: &[u16]| sampler.regroup(members, shards).unwrap_err().to_string();
        assert!(refused(&[], &[]).contains("nobody is in it"));
        assert!(refused(&[1, 0], &[0, 1]).contains("[1, 0] do not ascend"));
        assert!(refused(&[0, 8], &[0, 8]).contains("no worker 8 of 8"));
        assert!(refused(&[0, 1], &[0]).contains("member 1 are not used"));
        let mut state = before.state();
        for bad in [-1.0, 0.5, 65536.0, f32::NAN] {
            state[5] = bad;
            assert!(matches!(sampler.restore(&state), Err(TrainerError::BadState)), "{bad}");
        }
        assert!(matches!(sampler.restore(&state[1..]), Err(TrainerError::BadState)));
        assert_eq!(sampler, before);
        assert!(matches!(Sampler::new(before.shards, 0, 0), Err(TrainerError::NoSamples)));
    }
}
