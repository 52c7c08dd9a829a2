//! Vouching: the server's proof that a result is the one that it finished.
//!
//! If a member leaves while a slice is under way, the slice has two correct sums: the sum of all previous members, and
//! the sum of the members that stay. The server finishes one of them and serves it permanently, also under the job id
//! of the next generation. A switch may hold the other sum. It may be the sum of the earlier generation, which the
//! switch did not forward, so that the server restarted the slice. Or it may be the sum of the present generation,
//! which members send if they did not receive a result of the earlier generation. If members accepted both sums, they
//! would continue with different results. So they accept a sum only with the server's proof. The server combines the
//! tag with a number that is derived from the slice, from the generation that finished it, from the present generation,
//! and from a key that switches do not have. An attacker without the key guesses the number with a probability of
//! 2^-64.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt};
use sha2::{Digest, Sha256};
use tributary_wire::{JobId, JobSecret, Seq, Tag};

use crate::tags::cipher;

/// Derives the key of a job's vouchers from the members' secret.
/// Members derive it themselves and the server receives it. It reveals nothing about the secret.
pub fn vouching_key(secret: &JobSecret) -> JobSecret {
    let digest =
        Sha256::new().chain_update(secret.bytes()).chain_update("key of the server's word").finalize();
    JobSecret::new(digest.into())
}

/// The generator of vouchers. The server combines vouchers with the tags of its results, and workers
/// remove them.
#[derive(Clone)]
pub(crate) struct Vouchers(Aes128);

/// Hides the key.
impl fmt::Debug for Vouchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vouchers(…)")
    }
}

impl Vouchers {
    /// Makes a generator from the key that [`vouching_key`] returns.
    pub(crate) fn new(key: &JobSecret) -> Self {
        Self(cipher(key, "vouchers"))
    }

    /// Returns the tag with which the server serves a slice in the generation `present`.
    /// The slice was finished in the generation `finished`. A second call, with the returned tag, returns the original
    /// tag.
    pub(crate) fn vouch(&self, tag: Tag, seq: Seq, finished: JobId, present: JobId) -> Tag {
        let word = self.word(0, seq, finished, present);
        Tag { high: tag.high ^ word.high, low: tag.low ^ word.low }
    }

    /// Returns the tag of an acknowledgement: the proof that the slice was finished, without its sum.
    /// It does not reveal the word that [`vouch`](Self::vouch) combines with the sum's tag.
    pub(crate) fn acknowledge(&self, seq: Seq, finished: JobId, present: JobId) -> Tag {
        self.word(1, seq, finished, present)
    }

    fn word(&self, purpose: u128, seq: Seq, finished: JobId, present: JobId) -> Tag {
        let [finished, present] = [finished, present].map(|job| u128::from(job.get()));
        let block = finished << 112 | present << 96 | purpose << 32 | u128::from(seq.0);
        let mut block = Array::from(block.to_be_bytes());
        self.0.encrypt_block(&mut block);
        let word = u128::from_be_bytes(block.into());
        Tag { high: (word >> 32) as u32, low: word as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vouchers(secret: u8) -> Vouchers {
        Vouchers::new(&vouching_key(&JobSecret::new([secret; JobSecret::BYTES])))
    }

    fn vouched(vouchers: &Vouchers, seq: u32, finished: u16, present: u16) -> Tag {
        let [finished, present] = [finished, present].map(|job| JobId::new(job).unwrap());
        vouchers.vouch(Tag { high: 1, low: 2 }, Seq(seq), finished, present)
    }

    #[test]
    fn a_word_is_for_one_slice_of_one_generation_in_another_one() {
        let all = [
            (1, 9, 5, 6),
            (2, 9, 5, 6),
            (1, 10, 5, 6),
            (1, 9, 4, 6),
            (1, 9, 5, 7),
            (1, 9, 6, 5),
            (1, 9, 5, 5),
            (1, 9, 6, 6),
        ];
        let all = all.map(|(secret, seq, finished, present)| {
            let tag = vouched(&vouchers(secret), seq, finished, present);
            (tag.high, tag.low)
        });
        for (at, one) in all.iter().enumerate() {
            assert!(*one != (1, 2) && !all[at + 1..].contains(one), "{all:?}");
        }
    }

    #[test]
    fn who_vouches_twice_has_the_tag_again() {
        let vouchers = vouchers(1);
        let [five, six] = [5, 6].map(|job| JobId::new(job).unwrap());
        let tag = Tag { high: 3, low: 4 };
        let there = vouchers.vouch(tag, Seq(9), five, six);
        assert_eq!(vouchers.vouch(there, Seq(9), five, six), tag);
    }

    #[test]
    fn logs_do_not_contain_the_key() {
        assert_eq!(format!("{:?}", vouchers(1)), "Vouchers(…)");
    }
}
