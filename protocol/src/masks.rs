//! What hides the values of a confidential job from switches, from the server and from whoever sees the wire.
//!
//! Each member adds to its values, mod 2^32, a stream of its own, and takes away that of the next member in the ring of all
//! members. Around the ring the streams cancel: the sum of all members is that of their values, and any other sum is noise.
//! (Published for all-reduce as HEAR: "HEAR: Homomorphically Encrypted Allreduce", SC '23.) The streams come from the job's
//! secret, by AES in counter mode, afresh for each slice and generation.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt};
use tributary_wire::{JobId, JobSecret, Rank, Seq};

use crate::tags::cipher;

/// Values in one block of a stream.
const VALUES_PER_BLOCK: usize = 4;
/// Blocks that are encrypted at once.
const AT_ONCE: usize = 8;

/// What a member's masks are made from.
#[derive(Clone)]
pub(crate) struct Masks(Aes128);

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masks(…)")
    }
}

impl Masks {
    pub(crate) fn new(secret: &JobSecret) -> Self {
        Self(cipher(secret, "masks of values"))
    }

    /// Hides a member's values; `next` is the member after it in the ring of all members.
    pub(crate) fn hide(&self, (job, seq): (JobId, Seq), [own, next]: [Rank; 2], values: &mut [i32]) {
        self.stream(job, seq, own, values, i32::wrapping_add);
        self.stream(job, seq, next, values, i32::wrapping_sub);
    }

    fn stream(&self, job: JobId, seq: Seq, rank: Rank, values: &mut [i32], combine: fn(i32, i32) -> i32) {
        let place = u128::from(job.get()) << 112 | u128::from(seq.0) << 80 | u128::from(rank.get()) << 64;
        let mut counter = place;
        for values in values.chunks_mut(AT_ONCE * VALUES_PER_BLOCK) {
            let mut blocks = [Array::from([0; 16]); AT_ONCE];
            for block in &mut blocks {
                *block = Array::from(counter.to_be_bytes());
                counter += 1;
            }
            self.0.encrypt_blocks(&mut blocks);
            for (values, block) in values.chunks_mut(VALUES_PER_BLOCK).zip(blocks) {
                let words: [u8; 16] = block.into();
                for (value, word) in values.iter_mut().zip(words.as_chunks::<4>().0) {
                    *value = combine(*value, i32::from_be_bytes(*word));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: usize = 256;

    fn masks(secret: u8) -> Masks {
        Masks::new(&JobSecret::new([secret; JobSecret::BYTES]))
    }

    /// A member's values of one slice, hidden.
    fn hidden(masks: &Masks, job: u16, seq: u32, ring: [u16; 2], value: i32) -> [i32; VALUES] {
        let mut values = [value; VALUES];
        masks.hide((JobId::new(job).unwrap(), Seq(seq)), ring.map(Rank::new), &mut values);
        values
    }

    #[test]
    fn around_the_ring_masks_cancel_and_nowhere_else() {
        let masks = masks(1);
        let ring = [[0, 3], [3, 4], [4, 0]].map(|ring| hidden(&masks, 7, 9, ring, i32::from(ring[0])));
        let sum = |of: &[[i32; VALUES]]| {
            of.iter().fold([0; VALUES], |mut sum, values| {
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = i32::wrapping_add(*sum, *value));
                sum
            })
        };
        assert_eq!(sum(&ring), [3 + 4; VALUES]);
        for part in [&ring[..1], &ring[1..2], &ring[..2], &ring[1..]] {
            let sum = sum(part);
            let equal = sum.iter().zip(&sum[1..]).filter(|(a, b)| a == b).count();
            assert!(equal == 0 && sum.iter().all(|value| value.unsigned_abs() > 1000), "{sum:?}");
        }
    }

    #[test]
    fn masks_are_others_for_each_secret_generation_slice_and_member() {
        let all = [
            hidden(&masks(1), 7, 9, [0, 1], 0),
            hidden(&masks(2), 7, 9, [0, 1], 0),
            hidden(&masks(1), 8, 9, [0, 1], 0),
            hidden(&masks(1), 7, 10, [0, 1], 0),
            hidden(&masks(1), 7, 9, [1, 2], 0),
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert!(one.iter().zip(other).all(|(a, b)| a != b));
            }
        }
    }
}
