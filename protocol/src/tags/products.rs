//! The sum of a slice's values, each times its coefficient: the loop that a tag's cost is made of.
//!
//! A coefficient has up to 64 bits. It is there in limbs so short that the products of all of a slice's values with one
//! limb can be added up in 64 bits, which is what vector units do.

use multiversion::multiversion;
use tributary_wire::ValuesView;
use tributary_wire::constants::VALUES_PER_SLICE;

/// Three limbs of 22 bits hold 64; a product with a value has 54, and the sum of 256 of them 62.
const LIMBS: usize = 3;
const LIMB_BITS: u32 = 22;
const _: () = assert!(LIMBS as u32 * LIMB_BITS >= 64 && (VALUES_PER_SLICE as u64) << (LIMB_BITS + 32) > 0);

/// The bits of a factor for which vector units have a multiplication.
const FACTOR: u64 = u32::MAX as u64;

/// Maps a signed value to one that is not, and larger by 2^31.
pub(super) const SIGN: u32 = 1 << 31;

/// A slice's limbs of one place, each as wide as the products that it is a factor of: vector units do not have to widen them.
type Limbs = [u64; VALUES_PER_SLICE];

/// One coefficient for each value of a slice.
#[derive(Clone)]
pub(super) struct Multipliers(Box<[Limbs; LIMBS]>);

impl Multipliers {
    pub(super) fn new(coefficients: &[u64; VALUES_PER_SLICE]) -> Self {
        let limb = |coefficient: u64, limb: usize| {
            (coefficient >> (limb as u32 * LIMB_BITS)) & ((1 << LIMB_BITS) - 1)
        };
        Self(Box::new(std::array::from_fn(|at| coefficients.map(|coefficient| limb(coefficient, at)))))
    }

    /// Σ coefficient · (value + [2^31](SIGN)): below 2^107.
    pub(super) fn of_numbers(&self, values: &[i32; VALUES_PER_SLICE]) -> u128 {
        whole(sums_of_numbers(&self.0, values))
    }

    /// The same of values as they came.
    pub(super) fn of_view(&self, values: ValuesView<'_>) -> u128 {
        whole(sums_of_view(&self.0, values))
    }
}

fn whole(sums: [u64; LIMBS]) -> u128 {
    sums.iter().rev().fold(0, |whole, sum| (whole << LIMB_BITS) + u128::from(*sum))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn sums_of_numbers(limbs: &[Limbs; LIMBS], values: &[i32; VALUES_PER_SLICE]) -> [u64; LIMBS] {
    sums(limbs, values.iter().copied())
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn sums_of_view(limbs: &[Limbs; LIMBS], values: ValuesView<'_>) -> [u64; LIMBS] {
    sums(limbs, values.iter())
}

/// Inlined, so that each caller has it for its processors.
#[inline(always)]
fn sums(limbs: &[Limbs; LIMBS], values: impl Iterator<Item = i32>) -> [u64; LIMBS] {
    let [low, middle, high] = limbs;
    let mut sums = [0; LIMBS];
    for (((value, low), middle), high) in values.zip(low).zip(middle).zip(high) {
        let value = u64::from(value.cast_unsigned() ^ SIGN);
        // What is cut off is 0, which the compiler does not know: both factors have 32 bits.
        sums[0] += (low & FACTOR) * value;
        sums[1] += (middle & FACTOR) * value;
        sums[2] += (high & FACTOR) * value;
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_wire::constants::VALUES_BYTES;

    use super::*;

    proptest! {
        #[test]
        fn products_are_added_up_as_one_by_one(
            coefficients in prop::collection::vec(any::<u64>(), VALUES_PER_SLICE),
            numbers in prop::collection::vec(any::<i32>(), VALUES_PER_SLICE),
        ) {
            let one = |(coefficient, number): (&u64, &i32)| {
                u128::from(*coefficient) * (i128::from(*number) + (1 << 31)).cast_unsigned()
            };
            let expected: u128 = coefficients.iter().zip(&numbers).map(one).sum();
            let multipliers = Multipliers::new(&coefficients.try_into().unwrap());
            let numbers: [i32; VALUES_PER_SLICE] = numbers.try_into().unwrap();
            prop_assert_eq!(multipliers.of_numbers(&numbers), expected);
            let mut bytes = [0; VALUES_BYTES];
            tributary_wire::values::write(&numbers, &mut bytes);
            prop_assert_eq!(multipliers.of_view(ValuesView::new(&bytes)), expected);
        }
    }

    #[test]
    fn the_largest_of_all_have_room() {
        let multipliers = Multipliers::new(&[u64::MAX; VALUES_PER_SLICE]);
        let expected = u128::from(u64::MAX) * u128::from(u32::MAX) * VALUES_PER_SLICE as u128;
        assert_eq!(multipliers.of_numbers(&[i32::MAX; VALUES_PER_SLICE]), expected);
    }
}
