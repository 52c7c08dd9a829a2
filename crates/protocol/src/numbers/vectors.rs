//! The loops over all values of a slice, compiled for each kind of vector instructions.
//! Each is compiled once for every processor, and twice more for processors with wide vectors: AVX-512 if it is fast,
//! and AVX2. The program selects the version at run time. All versions compute the same bits.
//!
//! Each loop is plain code that the compiler vectorises. Without AVX2 (or NEON, which every 64-bit ARM has), it lacks
//! instructions for the maximum of unsigned numbers, for the swap of the byte order, and for four doubles at a time.

use multiversion::multiversion;
use tributary_wire::{Rank, SliceWidth, ValuesView};

use super::fixed_point::{quantise, quantise_wide};
use super::lanes::owner;
use super::prefetch::prefetch;

/// The bits of an f32 without its sign.
const F32_MAGNITUDE: u32 = 0x7fff_ffff;
/// The bits of positive infinity.
pub(crate) const F32_INFINITY: u32 = 0x7f80_0000;

/// The largest and smallest magnitudes of a set of floats.
/// Without their sign, floats have the order of their bits as integers. Infinities come after all numbers, and NaNs
/// after infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    /// The bits of the largest magnitude.
    pub(crate) largest: u32,
    /// The bits of the smallest magnitude that is not 0; 0 if all magnitudes are 0.
    pub(crate) least: u32,
    /// True if a value is 0.
    pub(crate) has_zero: bool,
}

#[inline(always)]
fn extent_of(values: &[f32]) -> Extent {
    // 0 − 1 wraps around to the largest number, so the minimum skips zeros.
    let begin = (0, u32::MAX, u32::MAX);
    let (largest, least, lowest) = values.iter().fold(begin, |(largest, least, lowest), value| {
        let magnitude = value.to_bits() & F32_MAGNITUDE;
        (
            u32::max(largest, magnitude),
            u32::min(least, magnitude.wrapping_sub(1)),
            u32::min(lowest, magnitude),
        )
    });
    Extent { largest, least: least.wrapping_add(1), has_zero: lowest == 0 }
}

/// Measures a block. If its length is known at compile time, the loop takes two thirds of the time.
#[inline(always)]
fn extent_of_block(values: &[f32]) -> Extent {
    match values.as_array::<{ SliceWidth::MOST_VALUES_IN_BLOCK }>() {
        Some(values) => extent_of(values),
        None => extent_of(values),
    }
}

/// The largest number of elements in a block: two in each value.
const MOST_ELEMENTS_IN_BLOCK: usize = 2 * SliceWidth::MOST_VALUES_IN_BLOCK;

/// The number of neighbours among paired elements.
/// The largest magnitude of these elements determines their precision.
const NEIGHBOURS: usize = 8;

/// Writes the extent of each block's largest magnitudes of neighbours to `out`, until `out` is full.
/// A block has `block` values.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn extents_of_neighbours(values: &[f32], block: usize, out: &mut [Extent]) {
    for (to, values) in out.iter_mut().zip(values.chunks(block)) {
        let mut largest = [0.0; MOST_ELEMENTS_IN_BLOCK / NEIGHBOURS];
        let (wholes, rest) = values.as_chunks::<NEIGHBOURS>();
        let magnitude = |values: &[f32]| {
            f32::from_bits(values.iter().fold(0, |most, value| most.max(value.to_bits() & F32_MAGNITUDE)))
        };
        largest.iter_mut().zip(wholes).for_each(|(to, values)| *to = magnitude(values));
        if let Some(to) = largest.get_mut(wholes.len()) {
            *to = magnitude(rest);
        }
        *to = extent_of(largest.get(..values.len().div_ceil(NEIGHBOURS)).unwrap_or_default());
    }
}

/// Writes the extent of each block of `block` values to `out`, until `out` is full.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn extents(values: &[f32], block: usize, out: &mut [Extent]) {
    for (to, values) in out.iter_mut().zip(values.chunks(block)) {
        *to = extent_of_block(values);
    }
}

/// Returns the largest magnitude of the integers.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn largest_integer(values: &[i32]) -> u32 {
    values.iter().fold(0, |largest, value| largest.max(value.unsigned_abs()))
}

/// Returns the largest magnitude of the 64-bit integers.
pub(crate) fn largest_long_integer(values: &[i64]) -> u64 {
    values.iter().fold(0, |largest, value| largest.max(value.unsigned_abs()))
}

/// Converts each value to an integer as [`quantise`] does, up to the end of the shortest slice.
/// Each block of values has its own multiplier. Meanwhile the processor prefetches the `next` values.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn quantise_all(
    (values, next): (&[f32], &[f32]),
    (block, multipliers): (usize, &[f64]),
    out: &mut [i32],
) {
    let mut next = next.chunks(block);
    for ((out, values), multiplier) in out.chunks_mut(block).zip(values.chunks(block)).zip(multipliers) {
        prefetch(next.next().unwrap_or_default());
        for (to, value) in out.iter_mut().zip(values) {
            *to = quantise(*value, *multiplier);
        }
    }
}

/// Converts the sum of each value's parts to an integer as [`quantise`] does.
/// The parts are added in f64, each times its factor, in their order. Each block of values has its own multiplier.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn quantise_sums(parts: &[(&[f32], f64)], (block, multipliers): (usize, &[f64]), out: &mut [i32]) {
    for ((at, out), multiplier) in out.chunks_mut(block).enumerate().zip(multipliers) {
        let mut sums = [0.0; MOST_ELEMENTS_IN_BLOCK];
        for (values, factor) in parts {
            add_times(values.get(at * block..).unwrap_or_default(), *factor, &mut sums);
        }
        out.iter_mut().zip(sums).for_each(|(to, sum)| *to = quantise_wide(sum, *multiplier));
    }
}

#[inline(always)]
fn add_times(values: &[f32], factor: f64, sums: &mut [f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(*value) * factor);
}

/// Adds each value times the factor to its sum.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn add(values: &[f32], factor: f64, sums: &mut [f64]) {
    add_times(values, factor, sums);
}

/// Writes the f32 nearest to each sum, and the rest of the sum. Returns true if all are finite.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn split(sums: &[f64], nearest: &mut [f32], rest: &mut [f32]) -> bool {
    let mut largest = 0;
    for ((sum, nearest), rest) in sums.iter().zip(nearest).zip(rest) {
        *nearest = *sum as f32;
        *rest = (*sum - f64::from(*nearest)) as f32;
        largest = u32::max(largest, nearest.to_bits() & F32_MAGNITUDE);
    }
    largest < F32_INFINITY
}

/// Multiplies each integer by a weight, mod 2^32, up to the end of the shorter slice.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn weigh_all(values: &[i32], weight: i32, out: &mut [i32]) {
    for (to, value) in out.iter_mut().zip(values) {
        *to = value.wrapping_mul(weight);
    }
}

/// Multiplies each integer by the unit of its block of `block` values, a power of two.
/// Each product is rounded once to f32.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn restore_all(integers: ValuesView<'_>, (block, units): (usize, &[f64]), out: &mut [f32]) {
    let blocks = integers.bytes().chunks(block * size_of::<i32>());
    for ((out, integers), unit) in out.chunks_mut(block).zip(blocks).zip(units) {
        let integers = ValuesView::new(integers).iter();
        let narrow_unit = *unit as f32;
        if narrow_unit.is_normal() {
            // The conversion to f32 rounds. The multiplication is exact, because the unit is a power of two and the
            // product is a normal number.
            out.iter_mut().zip(integers).for_each(|(to, integer)| *to = integer as f32 * narrow_unit);
        } else {
            // The product is exact in f64.
            out.iter_mut().zip(integers).for_each(|(to, integer)| *to = (f64::from(integer) * *unit) as f32);
        }
    }
}

/// Packs the integers of each block of `block` elements into half the number of values.
/// Element i and element i + block / 2 share a value. `integers` has whole blocks.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn pair_all(integers: &[i32], block: usize, out: &mut [i32]) {
    for (out, integers) in out.chunks_mut(block / 2).zip(integers.chunks_exact(block)) {
        let (lows, highs) = integers.split_at(block / 2);
        for ((out, low), high) in out.iter_mut().zip(lows).zip(highs) {
            *out = (high << 16).wrapping_add(*low);
        }
    }
}

/// Returns the sums of the two elements in a value.
#[inline(always)]
pub(crate) fn unpaired(value: i32) -> [i32; 2] {
    let low = i32::from(value as i16);
    [low, value.wrapping_sub(low) >> 16]
}

/// Returns the sums of the elements of a block, from its values.
pub(crate) fn unpaired_all(values: ValuesView<'_>) -> Vec<i32> {
    let sums = |place: usize| values.iter().map(move |value| unpaired(value)[place]);
    sums(0).chain(sums(1)).collect()
}

/// Multiplies the sums of each block of `block` elements by the unit of the block, a power of two.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn restore_pairs(values: ValuesView<'_>, (block, units): (usize, &[f64]), out: &mut [f32]) {
    let blocks = values.bytes().chunks(block / 2 * size_of::<i32>());
    for ((out, values), unit) in out.chunks_mut(block).zip(blocks).zip(units) {
        let (lows, highs) = out.split_at_mut(out.len().min(block / 2));
        let narrow_unit = *unit as f32;
        for (place, out) in [lows, highs].into_iter().enumerate() {
            let sums = ValuesView::new(values).iter().map(|value| unpaired(value)[place]);
            if narrow_unit.is_normal() {
                // Both factors are exact in f32, so each product is rounded once.
                out.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum as f32 * narrow_unit);
            } else {
                out.iter_mut().zip(sums).for_each(|(to, sum)| *to = (f64::from(sum) * *unit) as f32);
            }
        }
    }
}

/// Returns the sum of the coefficients of the lanes that a member owns.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn sum_of_owned(member: Rank, lanes: &[i32], coefficients: &[u64]) -> u64 {
    let owned = |lane: i32| owner(lane.cast_unsigned()) == Some(member);
    let each = lanes.iter().zip(coefficients);
    each.map(|(lane, coefficient)| if owned(*lane) { *coefficient } else { 0 }).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates floats with any bits, including subnormals, infinities and NaNs.
    fn floats() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..300)
    }

    proptest! {
        #[test]
        fn extents_are_those_of_one_value_after_the_other(values in floats()) {
            let magnitudes = |values: &[f32]| values.iter().map(|value| value.abs().to_bits()).collect::<Vec<_>>();
            let one_by_one = |values: &[f32]| {
                let largest = magnitudes(values).into_iter().max().unwrap_or(0);
                let least = magnitudes(values).into_iter().filter(|magnitude| *magnitude > 0).min().unwrap_or(0);
                Extent { largest, least, has_zero: magnitudes(values).contains(&0) }
            };
            let mut whole = [Extent::default()];
            extents(&values, values.len().max(1), &mut whole);
            prop_assert_eq!(whole[0], one_by_one(&values));
            let mut out = [Extent::default(); 5];
            extents(&values, 64, &mut out);
            for (block, out) in values.chunks(64).zip(out) {
                prop_assert_eq!(out, one_by_one(block));
            }
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
            let multipliers = [1.0, 0.5, 1.0, 2.0].map(|factor| factor * multiplier);
            quantise_all((&values, &values), (64, &multipliers), &mut out);
            for (at, out) in out.into_iter().enumerate() {
                let alone = values.get(at).map(|&x| (f64::from(x) * multipliers[at / 64]).round_ties_even() as i32);
                prop_assert_eq!(out, alone.unwrap_or(7));
            }
        }

        #[test]
        fn integers_come_back_in_order_and_rounded_once(
            values in prop::collection::vec(any::<i32>(), 256), power in -150i32..100, len in 0usize..=256,
        ) {
            let mut bytes = [0; SliceWidth::ETHERNET.bytes()];
            tributary_wire::values::write(&values, &mut bytes);
            let units = [0, 1, 2, 3].map(|more| 2f64.powi(power + more));
            let mut out = vec![0.0; len];
            restore_all(ValuesView::new(&bytes), (64, &units), &mut out);
            let alone = values.iter().enumerate();
            let alone = alone.map(|(at, &value)| ((f64::from(value) * units[at / 64]) as f32).to_bits());
            prop_assert!(out.iter().map(|value| value.to_bits()).eq(alone.take(len)));

            let mut weighed = vec![0; len];
            weigh_all(&values, power, &mut weighed);
            prop_assert!(weighed.into_iter().eq(values.iter().map(|v| v.wrapping_mul(power)).take(len)));
        }
    }
}
