//! Compares operations on lines with operations on wider numbers.

use std::cmp::Ordering;

use num_bigint::BigUint;
use proptest::prelude::*;

use super::*;

/// a is at line 0, b at line 2, the result at line 4; each takes two lines.
const A: LineIndex = 0;
const B: LineIndex = 2;
const D: LineIndex = 4;
const N: u8 = 2;
const BITS: u64 = 1024;

fn lines(a: [u64; 16], b: [u64; 16]) -> Vec<Line> {
    [a, b, [0x5555; 16]].concat().as_chunks::<LIMBS>().0.to_vec()
}

fn bit(limbs: &[u64], index: u64) -> bool {
    limbs[(index / 64) as usize] >> (index % 64) & 1 == 1
}

/// Generates limbs that are often all zeros or all ones, so that carries pass over many limbs.
fn value() -> impl Strategy<Value = [u64; 16]> {
    proptest::array::uniform16(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()])
}

proptest! {
    #[test]
    fn sums_and_differences_undo_each_other(a in value(), b in value()) {
        let mut lines = lines(a, b);
        add(&mut lines, D, A, B, N);
        let mut carry = 0_u128;
        for (i, sum) in limbs(&lines, D, N).iter().enumerate() {
            let exact = u128::from(a[i]) + u128::from(b[i]) + carry;
            prop_assert_eq!(*sum, exact as u64);
            carry = exact >> 64;
        }
        sub(&mut lines, D, D, B, N);
        prop_assert_eq!(limbs(&lines, D, N), &a[..]);
        sub(&mut lines, D, A, A, N);
        prop_assert_eq!(limbs(&lines, D, N), &[0; 16][..]);
    }

    #[test]
    fn products_are_those_of_longer_arithmetic(a in value(), b in value()) {
        let mut lines = lines(a, b);
        mul(&mut lines, D, A, B, N);
        let number = |limbs: &[u64]| {
            BigUint::from_bytes_le(&limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect::<Vec<_>>())
        };
        let exact = number(&a) * number(&b) % (BigUint::from(1_u8) << BITS);
        prop_assert_eq!(number(limbs(&lines, D, N)), exact);
    }

    #[test]
    fn bits_are_combined_one_by_one(a in value(), b in value()) {
        let mut lines = lines(a, b);
        and(&mut lines, D, A, B, N);
        or(&mut lines, A, A, B, N);
        xor(&mut lines, B, A, D, N);
        for i in 0..16 {
            prop_assert_eq!(limbs(&lines, D, N)[i], a[i] & b[i]);
            prop_assert_eq!(limbs(&lines, A, N)[i], a[i] | b[i]);
            prop_assert_eq!(limbs(&lines, B, N)[i], a[i] ^ b[i]);
        }
    }

    #[test]
    fn shifts_move_every_bit(a in value(), by in prop_oneof![0..BITS + 2, Just(64), Just(BITS), Just(u64::MAX)]) {
        let mut lines = lines(a, a);
        shl(&mut lines, D, A, by, N);
        for i in 0..BITS {
            prop_assert_eq!(bit(limbs(&lines, D, N), i), i >= by && bit(&a, i - by));
        }
        // The operation also works in place.
        shr(&mut lines, A, A, by, N);
        for i in 0..BITS {
            prop_assert_eq!(bit(limbs(&lines, A, N), i), by < BITS - i && bit(&a, i + by));
        }
    }

    #[test]
    fn the_highest_limb_that_differs_decides(a in value(), b in value()) {
        let lines = lines(a, b);
        let expected = (0..16).rev().map(|i| a[i].cmp(&b[i])).find(|order| order.is_ne());
        prop_assert_eq!(compare(&lines, A, B, N), expected.unwrap_or(Ordering::Equal));
        let signed = match (a[15] >> 63, b[15] >> 63) {
            (1, 0) => Ordering::Less,
            (0, 1) => Ordering::Greater,
            _ => compare(&lines, A, B, N),
        };
        prop_assert_eq!(compare_signed(&lines, A, B, N), signed);
    }
}
