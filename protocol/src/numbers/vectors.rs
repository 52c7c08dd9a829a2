//! The loops over all values of a slice, compiled once for every processor and twice more for those with wide vectors
//! (AVX-512 where it is fast, AVX2): which one runs is decided when the program does. All give the same bits.
//!
//! Each loop is plain: the compiler vectorises it. Without AVX2 (and NEON, which every 64-bit ARM has) it
//! has to do without instructions for the larger of two unsigned numbers, for the other byte order and
//! for four doubles at a time.

use multiversion::multiversion;
use tributary_wire::ValuesView;

use super::fixed_point::quantise;

/// All of an f32 but its sign.
const F32_MAGNITUDE: u32 = 0x7fff_ffff;

/// The largest magnitude, as the bits of a float. Without their sign, floats are ordered like the integers
/// that their bits spell; infinities come after all numbers, and NaNs after them.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn largest_magnitude(values: &[f32]) -> u32 {
    values.iter().fold(0, |largest, value| largest.max(value.to_bits() & F32_MAGNITUDE))
}

/// The largest magnitude of integers.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn largest_integer(values: &[i32]) -> u32 {
    values.iter().fold(0, |largest, value| largest.max(value.unsigned_abs()))
}

/// Each value as [`quantise`] makes it an integer, as far as both slices go.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn quantise_all(values: &[f32], multiplier: f64, out: &mut [i32]) {
    for (to, value) in out.iter_mut().zip(values) {
        *to = quantise(*value, multiplier);
    }
}

/// Each integer times a weight, mod 2^32, as far as both slices go.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn weigh_all(values: &[i32], weight: i32, out: &mut [i32]) {
    for (to, value) in out.iter_mut().zip(values) {
        *to = value.wrapping_mul(weight);
    }
}

/// Each integer times `unit`, as floats: that product is exact in f64, and rounded once.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn restore_all(integers: ValuesView<'_>, unit: f64, out: &mut [f32]) {
    for (to, integer) in out.iter_mut().zip(integers.iter()) {
        *to = (f64::from(integer) * unit) as f32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_wire::SliceWidth;

    use super::*;

    /// Any bits: subnormals, infinities and NaNs of every kind among them.
    fn floats() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..300)
    }

    proptest! {
        #[test]
        fn largest_magnitudes_are_those_of_one_value_after_the_other(values in floats()) {
            let one_by_one = values.iter().map(|value| value.abs().to_bits()).max().unwrap_or(0);
            prop_assert_eq!(largest_magnitude(&values), one_by_one);
            let integers: Vec<i32> = values.iter().map(|value| value.to_bits().cast_signed()).collect();
            let one_by_one = integers.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
            prop_assert_eq!(largest_integer(&integers), one_by_one);
        }

        #[test]
        fn every_value_is_rounded_as_if_alone(
            values in prop::collection::vec(-1.0f32..1.0, 0..300), power in -10i32..30, weight in 1u32..1000,
        ) {
            let multiplier = f64::from(weight) * 2f64.powi(power - 10);
            let mut out = vec![7; 256];
            quantise_all(&values, multiplier, &mut out);
            for (at, out) in out.into_iter().enumerate() {
                let alone = values.get(at).map(|&x| (f64::from(x) * multiplier).round_ties_even() as i32);
                prop_assert_eq!(out, alone.unwrap_or(7));
            }
        }

        #[test]
        fn integers_come_back_in_order_and_rounded_once(
            values in prop::collection::vec(any::<i32>(), 256), power in -150i32..100, len in 0usize..=256,
        ) {
            let mut bytes = [0; SliceWidth::ETHERNET.bytes()];
            tributary_wire::values::write(&values, &mut bytes);
            let unit = 2f64.powi(power);
            let mut out = vec![0.0; len];
            restore_all(ValuesView::new(&bytes), unit, &mut out);
            let alone = values.iter().map(|&value| ((f64::from(value) * unit) as f32).to_bits());
            prop_assert!(out.iter().map(|value| value.to_bits()).eq(alone.take(len)));

            let mut weighed = vec![0; len];
            weigh_all(&values, power, &mut weighed);
            prop_assert!(weighed.into_iter().eq(values.iter().map(|v| v.wrapping_mul(power)).take(len)));
        }
    }
}
