//! Measures the loops over a slice's values, with the processor's widest vectors and without them, in
//! turn.
//! Prints gigabytes of floats per second, and the ratio.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "the benchmark uses a part of these modules"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tributary_wire::{SliceWidth, ValuesView};

// These loops are private.
#[path = "../src/numbers"]
mod numbers {
    pub mod bound;
    pub mod data;
    pub mod fixed_point;
    pub mod lanes;
    mod prefetch;
    pub mod vectors;
}
use numbers::fixed_point::quantise;
use numbers::vectors::{self, Extent};

/// The number of measurements of each loop; `ROUND` is the duration of each.
const ROUNDS: usize = 21;
const ROUND: Duration = Duration::from_millis(10);

/// The number of values that share a scale; `BLOCKS` is the number of such blocks in a slice.
const BLOCK: usize = SliceWidth::ETHERNET.values_in_block();
const BLOCKS: usize = SliceWidth::ETHERNET.values() / BLOCK;

type Floats = [f32; SliceWidth::ETHERNET.values()];
type Integers = [i32; SliceWidth::ETHERNET.values()];

#[inline(never)]
fn plain_extents(values: &[f32], out: &mut [Extent]) {
    for (to, values) in out.iter_mut().zip(values.chunks(BLOCK)) {
        let magnitudes = || values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
        let least = magnitudes().fold(u32::MAX, |least, magnitude| least.min(magnitude.wrapping_sub(1)));
        let largest = magnitudes().fold(0, u32::max);
        *to = Extent {
            largest,
            least: least.wrapping_add(1),
            has_zero: magnitudes().any(|magnitude| magnitude == 0),
        };
    }
}

#[inline(never)]
fn plain_quantise(values: &[f32], multiplier: f64, out: &mut [i32]) {
    for (to, value) in out.iter_mut().zip(values) {
        *to = quantise(*value, multiplier);
    }
}

#[inline(never)]
fn plain_restore(integers: ValuesView<'_>, unit: f64, out: &mut [f32]) {
    for (to, integer) in out.iter_mut().zip(integers.iter()) {
        *to = (f64::from(integer) * unit) as f32;
    }
}

/// Returns the rate of `slice`, in gigabytes per second. Each call processes one slice.
fn rate(slice: &mut dyn FnMut()) -> f64 {
    let (mut slices, begin) = (0_u32, Instant::now());
    while begin.elapsed() < ROUND {
        (0..256).for_each(|_| slice());
        slices += 256;
    }
    f64::from(slices) * SliceWidth::ETHERNET.bytes() as f64 / begin.elapsed().as_secs_f64() / 1e9
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Measures both in turn, so that other load of the machine affects both.
fn compare(what: &str, mut plain: impl FnMut(), mut vectors: impl FnMut()) {
    let rounds = (0..ROUNDS).map(|_| (rate(&mut plain), rate(&mut vectors)));
    let (before, after): (Vec<_>, Vec<_>) = rounds.unzip();
    let (before, after) = (median(before), median(after));
    println!("{what}: {before:.1} GB/s plain, {after:.1} GB/s with vectors: {:.2} times", after / before);
}

fn main() {
    let floats: Floats = std::array::from_fn(|index| (index as f32 - 99.5) * 1.0e-4);
    let mut integers: Integers = [0; SliceWidth::ETHERNET.values()];
    let mut back: Floats = [0.0; SliceWidth::ETHERNET.values()];
    let bytes: [u8; SliceWidth::ETHERNET.bytes()] = std::array::from_fn(|index| index as u8);
    let unit = 2_f64.powi(-30);
    let (multiplier, multipliers, units) = (2_f64.powi(34), [2_f64.powi(34); BLOCKS], [unit; BLOCKS]);
    let (mut extents, mut other_extents) = ([Extent::default(); BLOCKS], [Extent::default(); BLOCKS]);
    compare(
        "the largest and the smallest magnitude of each block",
        || plain_extents(black_box(&floats), black_box(&mut other_extents)),
        || vectors::extents(black_box(&floats), BLOCK, black_box(&mut extents)),
    );
    assert_eq!(extents, other_extents);
    let mut other = integers;
    compare(
        "floats to fixed point",
        || plain_quantise(black_box(&floats), multiplier, black_box(&mut other)),
        || {
            vectors::quantise_all(
                (black_box(&floats), &floats),
                (BLOCK, &multipliers),
                black_box(&mut integers),
            );
        },
    );
    assert_eq!(integers, other);
    let mut other = back;
    compare(
        "big-endian fixed point to floats",
        || plain_restore(black_box(ValuesView::new(&bytes)), unit, black_box(&mut other)),
        || vectors::restore_all(black_box(ValuesView::new(&bytes)), (BLOCK, &units), black_box(&mut back)),
    );
    assert_eq!(back, other);
    pairs(&floats, &bytes);
}

/// Measures the loops over paired elements. In each comparison, the first loop handles single elements.
/// A slice here has half of the values of a slice of single elements.
fn pairs(floats: &Floats, bytes: &[u8]) {
    let (block, unit, multiplier) = (2 * BLOCK, 2_f64.powi(-14), 2_f64.powi(18));
    let mut extents = [Extent::default(); BLOCKS];
    let mut of_pairs = extents;
    compare(
        "magnitudes, and those of neighbours",
        || vectors::extents(black_box(floats), BLOCK, black_box(&mut extents)),
        || vectors::extents_of_neighbours(black_box(floats), block, black_box(&mut of_pairs)),
    );
    let mut integers: Integers = [0; SliceWidth::ETHERNET.values()];
    let (mut limbs, mut paired) = (integers, integers);
    compare(
        "floats to fixed point, and to pairs",
        || vectors::quantise_all((black_box(floats), floats), (BLOCK, &[multiplier; BLOCKS]), &mut integers),
        || {
            vectors::quantise_all((black_box(floats), floats), (block, &[multiplier]), &mut limbs);
            vectors::pair_all(&limbs, block, black_box(&mut paired));
        },
    );
    let mut back = *floats;
    let half = &bytes[..bytes.len() / 2];
    let mut of_pairs = back;
    compare(
        "fixed point to floats, and pairs",
        || vectors::restore_all(black_box(ValuesView::new(bytes)), (BLOCK, &[unit; BLOCKS]), &mut back),
        || {
            vectors::restore_pairs(
                black_box(ValuesView::new(half)),
                (block, &[unit]),
                black_box(&mut of_pairs),
            );
        },
    );
}
