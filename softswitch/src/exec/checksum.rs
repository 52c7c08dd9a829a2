//! The Internet checksum, RFC 1071.

use crate::program::{Checksum, ChecksumPart, Line};

/// The checksum that the header's field has to have.
///
/// One's complement sums of 16-bit words are sums modulo 2^16 - 1, and a number has the same rest as its
/// 16-bit words' sum. 2^64 leaves 1: so whole fields are added up, each rotated to where it stands in its
/// last word.
pub(super) fn compute(checksum: &Checksum, words: &[u64], lines: &[Line]) -> u64 {
    let mut sum = 0;
    for part in &checksum.parts {
        match *part {
            ChecksumPart::Word(word, shift) => add(&mut sum, words[usize::from(word)], shift),
            ChecksumPart::Lines(line, n, shift) => {
                let first = usize::from(line);
                let limbs = lines[first..first + usize::from(n)].as_flattened();
                limbs.iter().for_each(|limb| add(&mut sum, *limb, shift));
            }
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !sum & 0xffff
}

/// A sum whose carry comes in again at the other end.
#[inline(always)]
fn add(sum: &mut u64, value: u64, shift: u8) {
    let (added, carry) = sum.overflowing_add(value.rotate_left(shift.into()));
    *sum = added + u64::from(carry);
}
