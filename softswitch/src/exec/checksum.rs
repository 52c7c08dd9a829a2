//! The Internet checksum, RFC 1071.

use crate::program::{Checksum, ChecksumPart, Line};

/// The checksum that the header's field has to have.
///
/// One's complement sums of 16-bit words are sums modulo 2^16 - 1, and a number has the same rest as its
/// 16-bit words' sum: so whole fields are added up, each shifted to where it stands in its last word.
pub(super) fn compute(checksum: &Checksum, words: &[u64], lines: &[Line]) -> u64 {
    let mut sum = 0_u128;
    for part in &checksum.parts {
        match *part {
            ChecksumPart::Word(word, shift) => sum += u128::from(words[usize::from(word)]) << shift,
            ChecksumPart::Lines(line, n, shift) => {
                let first = usize::from(line);
                let limbs = lines[first..first + usize::from(n)].as_flattened();
                sum += limbs.iter().map(|limb| u128::from(*limb) << shift).sum::<u128>();
            }
        }
    }
    // 2^32 and 2^16 leave 1.
    let halves = [sum as u64, (sum >> 64) as u64].map(|half| (half >> 32) + (half & 0xffff_ffff));
    let mut sum = halves[0] + halves[1];
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !sum & 0xffff
}
