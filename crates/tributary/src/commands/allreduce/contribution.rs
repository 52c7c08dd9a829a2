//! Contributions of each rank, from which every rank can compute the sum.
//!
//! Contributions that are not quantised are integers that each type represents exactly. The same holds
//! for their sums before they are rounded to the type. So a correct result has exactly the expected
//! bits.

use std::fmt;

use half::{bf16, f16};
use tributary_client::Element;

/// Contributions are -128 to 127, because bf16, with 8 significant bits, represents these integers
/// exactly.
const HALF_RANGE: i64 = 128;
/// Half of the number of 24-bit values, all of which f32 represents exactly.
const HALF_OF_24_BITS: f32 = (1 << 23) as f32;

/// An element type that integers can be converted to.
pub(super) trait Number: Element + PartialEq + fmt::Display {
    /// Returns the value nearest to `integer`.
    fn from_integer(integer: i64) -> Self;
}

impl Number for f32 {
    fn from_integer(integer: i64) -> Self {
        integer as Self
    }
}

impl Number for i32 {
    fn from_integer(integer: i64) -> Self {
        integer as Self
    }
}

impl Number for f16 {
    fn from_integer(integer: i64) -> Self {
        Self::from_f32(integer as f32)
    }
}

impl Number for bf16 {
    fn from_integer(integer: i64) -> Self {
        Self::from_f32(integer as f32)
    }
}

/// A sum that differs from the expected sum.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong<T> {
    element: usize,
    sum: T,
    expected: T,
}

impl<T: fmt::Display> fmt::Display for Wrong<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sum of element {} is {}, not {}", self.element, self.sum, self.expected)
    }
}

/// Writes the contribution of `rank` to `elements`; `first` is the index of the first of these
/// elements.
pub(super) fn fill<T: Number>(first: usize, elements: &mut [T], rank: u32, iteration: u32) {
    for (index, element) in (first..).zip(elements) {
        *element = T::from_integer(value(index, rank, iteration));
    }
}

/// Writes a contribution of `rank` that resembles a gradient: many values near 0 and few large ones,
/// from -1 to 1. Uses only operations that every machine rounds in the same way.
pub(super) fn fill_as_gradient(elements: &mut [f32], rank: u32, iteration: u32) {
    for (index, element) in elements.iter_mut().enumerate() {
        let even = (hash(index, rank, iteration) >> 40) as f32 / HALF_OF_24_BITS - 1.0;
        *element = even * even * even;
    }
}

/// Returns the first wrong sum. `sums` are the sums of the elements from index `first` on; the members
/// in `ranks` have contributed.
pub(super) fn find_wrong<T: Number>(
    first: usize,
    sums: &[T],
    ranks: &[u32],
    iteration: u32,
) -> Option<Wrong<T>> {
    (first..).zip(sums).find_map(|(element, sum)| {
        let expected = ranks.iter().map(|rank| value(element, *rank, iteration)).sum();
        let expected = T::from_integer(expected);
        (*sum != expected).then_some(Wrong { element, sum: *sum, expected })
    })
}

/// Returns a value that depends on the element, the rank and the iteration, so that the check detects
/// any mix-up. The value consists of the upper bits of a multiplicative hash.
fn value(index: usize, rank: u32, iteration: u32) -> i64 {
    i64::from((hash(index, rank, iteration) >> 56) as u8) - HALF_RANGE
}

fn hash(index: usize, rank: u32, iteration: u32) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = (index as u64) ^ (u64::from(rank) << 40) ^ (u64::from(iteration) << 52);
    let hash = place.wrapping_add(1).wrapping_mul(GOLDEN);
    (hash ^ (hash >> 32)).wrapping_mul(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums<T: Number>(len: usize, ranks: &[u32], iteration: u32) -> Vec<T> {
        let sum = |index| ranks.iter().map(|rank| value(index, *rank, iteration)).sum();
        (0..len).map(|index| T::from_integer(sum(index))).collect()
    }

    #[test]
    fn the_right_sum_passes_and_one_wrong_element_is_found() {
        let ranks: Vec<u32> = (0..8).collect();
        assert_eq!(find_wrong(0, &sums::<f32>(1000, &ranks, 3), &ranks, 3), None);
        assert_eq!(find_wrong(400, &sums::<bf16>(1000, &ranks, 3)[400..], &ranks, 3), None);
        let mut wrong = sums::<i32>(1000, &ranks, 3);
        wrong[777] += 1;
        let found = find_wrong(0, &wrong, &ranks, 3).unwrap();
        assert_eq!((found.element, found.sum), (777, found.expected + 1));
    }

    #[test]
    fn a_missing_rank_a_swapped_slice_and_an_old_result_are_wrong() {
        let ranks: Vec<u32> = (0..4).collect();
        assert!(find_wrong(0, &sums::<f32>(256, &ranks[1..], 0), &ranks, 0).is_some());
        assert!(find_wrong(0, &sums::<f32>(256, &ranks, 0), &ranks, 1).is_some());
        let mut swapped = sums::<f32>(512, &ranks, 0);
        swapped.rotate_left(256);
        assert!(find_wrong(0, &swapped, &ranks, 0).is_some());
    }

    #[test]
    fn every_type_holds_every_contribution_exactly() {
        for integer in -HALF_RANGE..HALF_RANGE {
            assert_eq!(f16::from_integer(integer).to_f64(), integer as f64);
            assert_eq!(bf16::from_integer(integer).to_f64(), integer as f64);
        }
    }
}
