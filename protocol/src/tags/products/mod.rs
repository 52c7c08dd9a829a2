//! The sum of a slice's values, each times its coefficient: the loop that a tag's cost is made of.
//!
//! A coefficient has up to 64 bits. It is there in limbs so short that the products of all of a slice's values with one
//! limb can be added up in 64 bits, which is what vector units do.

use multiversion::multiversion;
use tributary_wire::ValuesView;

/// Three limbs of 22 bits hold 64; a product with a value has 54, and the sum of [`AT_ONCE`] of them 62.
const LIMBS: usize = 3;
const LIMB_BITS: u32 = 22;
/// Values whose products are added up in 64 bits.
const AT_ONCE: usize = 256;
const _: () = assert!(LIMBS as u32 * LIMB_BITS >= 64 && (AT_ONCE as u64) << (LIMB_BITS + 32) > 0);

/// The bits of a factor for which vector units have a multiplication.
const FACTOR: u64 = u32::MAX as u64;

/// Maps a signed value to one that is not, and larger by 2^31.
pub(super) const SIGN: u32 = 1 << 31;

/// The limbs of up to [`AT_ONCE`] coefficients: of each place those of all of them, each as wide as the products that it is
/// a factor of, so that vector units do not have to widen them.
type Limbs = [[u64; AT_ONCE]; LIMBS];

/// One coefficient for each value of a slice.
#[derive(Clone)]
pub(super) struct Multipliers(Box<[Limbs]>);

impl Multipliers {
    pub(super) fn new(coefficients: &[u64]) -> Self {
        Self(coefficients.chunks(AT_ONCE).map(limbs).collect())
    }

    /// Σ coefficient · (value + [2^31](SIGN)): below 2^107.
    pub(super) fn of_numbers(&self, values: &[i32]) -> u128 {
        self.0
            .iter()
            .zip(values.chunks(AT_ONCE))
            .map(|(limbs, values)| whole(sums_of_numbers(limbs, values)))
            .sum()
    }

    /// The same of values as they came.
    pub(super) fn of_view(&self, values: ValuesView<'_>) -> u128 {
        self.0
            .iter()
            .zip(values.chunks(AT_ONCE))
            .map(|(limbs, values)| whole(sums_of_view(limbs, values)))
            .sum()
    }
}

fn limbs(coefficients: &[u64]) -> Limbs {
    let mut limbs = [[0; AT_ONCE]; LIMBS];
    for (limbs, place) in limbs.iter_mut().zip(0..) {
        for (limb, coefficient) in limbs.iter_mut().zip(coefficients) {
            *limb = (coefficient >> (place * LIMB_BITS)) & ((1 << LIMB_BITS) - 1);
        }
    }
    limbs
}

fn whole(sums: [u64; LIMBS]) -> u128 {
    sums.iter().rev().fold(0, |whole, sum| (whole << LIMB_BITS) + u128::from(*sum))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn sums_of_numbers(limbs: &Limbs, values: &[i32]) -> [u64; LIMBS] {
    sums(limbs, values.iter().copied())
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn sums_of_view(limbs: &Limbs, values: ValuesView<'_>) -> [u64; LIMBS] {
    sums(limbs, values.iter())
}

/// Inlined, so that each caller has it for its processors.
#[inline(always)]
fn sums(limbs: &Limbs, values: impl Iterator<Item = i32>) -> [u64; LIMBS] {
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
    use tributary_wire::SliceWidth;

    use super::*;

    fn coefficients_and_numbers() -> impl Strategy<Value = (Vec<u64>, Vec<i32>)> {
        let widths: Vec<_> = SliceWidth::all().map(SliceWidth::values).collect();
        prop::sample::select(widths).prop_flat_map(|values| {
            (prop::collection::vec(any::<u64>(), values), prop::collection::vec(any::<i32>(), values))
        })
    }

    proptest! {
        #[test]
        fn products_are_added_up_as_one_by_one((coefficients, numbers) in coefficients_and_numbers()) {
            let one = |(coefficient, number): (&u64, &i32)| {
                u128::from(*coefficient) * (i128::from(*number) + (1 << 31)).cast_unsigned()
            };
            let expected: u128 = coefficients.iter().zip(&numbers).map(one).sum();
            let multipliers = Multipliers::new(&coefficients);
            prop_assert_eq!(multipliers.of_numbers(&numbers), expected);
            let bytes = tributary_wire::values::to_bytes(&numbers);
            prop_assert_eq!(multipliers.of_view(ValuesView::new(&bytes)), expected);
        }
    }

    #[test]
    fn the_largest_of_all_have_room() {
        let values = SliceWidth::WIDEST.values();
        let multipliers = Multipliers::new(&vec![u64::MAX; values]);
        let expected = u128::from(u64::MAX) * u128::from(u32::MAX) * values as u128;
        assert_eq!(multipliers.of_numbers(&vec![i32::MAX; values]), expected);
    }
}
