//! The Internet checksum, RFC 1071.

use crate::program::{ChecksumPart, FieldSum, Line};

/// Computes the checksum that the header's field must have.
///
/// A ones' complement sum of 16-bit words is a sum modulo 2^16 - 1, and a number is congruent to the sum of its 16-bit
/// words. As 2^64 is congruent to 1, whole fields are added, each rotated to its position in its last word.
pub(super) fn compute(checksum: &FieldSum, words: &[u64], lines: &[Line]) -> u64 {
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

/// Adds with end-around carry.
#[inline(always)]
fn add(sum: &mut u64, value: u64, shift: u8) {
    let (added, carry) = sum.overflowing_add(value.rotate_left(shift.into()));
    *sum = added + u64::from(carry);
}
