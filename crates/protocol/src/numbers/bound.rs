//! Bounds: the range and the finest unit of one member's values, for each block of neighbouring values.
//!
//! MAX slices carry them as [lanes](super::lanes).

use tributary_wire::Rank;

use super::data::ElementType;
use super::lanes::{Lanes, biased, lane};
use super::vectors::{self, Extent, F32_INFINITY};

const F64_INFINITY: u64 = 0x7ff0_0000_0000_0000;

/// The bound of one block of one member's values. The default is the bound of a block of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound {
    top: u16,
    /// The unit that the values' precision needs. It may be finer than the type's smallest magnitude.
    fine: u16,
    floor: u16,
    /// True if a value is NaN or infinite. The other fields describe the finite values.
    not_finite: bool,
}

impl Bound {
    /// Makes the bound of a block of floats whose magnitudes, except zeros, are from 2^`least` to below
    /// 2^`above`.
    /// `has_zero` is true if the block also contains zeros.
    fn of_exponents(element_type: ElementType, above: i32, least: i32, has_zero: bool) -> Self {
        let unit = least - element_type.grid().0;
        let floor = if has_zero || !element_type.is_rounded() { 0 } else { biased(least) };
        Self { top: biased(above), fine: biased(-unit), floor, not_finite: false }
    }

    /// Measures the bound of a block of f32, or of 16-bit floats that were widened.
    pub(crate) fn of_floats(element_type: ElementType, values: &[f32]) -> Self {
        let mut extent = [Extent::default()];
        extents(element_type, values, values.len().max(1), &mut extent);
        Self::of_extent(element_type, values, extent[0])
    }

    /// Makes the bound of a block of values whose [extent](extents) is known.
    pub(crate) fn of_extent(
        element_type: ElementType,
        values: &[f32],
        Extent { largest, least, has_zero }: Extent,
    ) -> Self {
        if largest == 0 {
            return Self::default();
        }
        if largest >= F32_INFINITY {
            let finite = values.iter().map(|value| if value.is_finite() { *value } else { 0.0 });
            let finite: Vec<f32> = finite.collect();
            return Self { not_finite: true, floor: 0, ..Self::of_floats(element_type, &finite) };
        }
        Self::of_exponents(element_type, f32_exponent(largest) + 1, f32_exponent(least), has_zero)
    }

    /// Measures the bound of a block of f64.
    pub(crate) fn of_doubles(element_type: ElementType, values: &[f64]) -> Self {
        let magnitudes = || values.iter().map(|value| value.abs().to_bits());
        let finite = || magnitudes().filter(|bits| (1..F64_INFINITY).contains(bits));
        let bound = finite().max().zip(finite().min()).map(|(largest, least)| {
            Self::of_exponents(element_type, f64_exponent(largest) + 1, f64_exponent(least), true)
        });
        Self { not_finite: magnitudes().any(|bits| bits >= F64_INFINITY), ..bound.unwrap_or_default() }
    }

    /// Measures the bound of a block of i32.
    pub(crate) fn of_integers(values: &[i32]) -> Self {
        Self::of_magnitude(vectors::largest_integer(values).into())
    }

    /// Measures the bound of a block of i64.
    pub(crate) fn of_long_integers(values: &[i64]) -> Self {
        Self::of_magnitude(vectors::largest_long_integer(values))
    }

    /// Makes the bound of a block of integers from its largest magnitude.
    pub(crate) fn of_magnitude(largest: u64) -> Self {
        Self { top: (u64::BITS - largest.leading_zeros()) as u16, ..Self::default() }
    }

    /// Returns the bound of this part of a contribution, whose values have a factor, for a contribution of
    /// the total `weight`. [`lanes`](Self::lanes) must get that weight.
    pub(crate) fn of_part(self, element_type: ElementType, factor: u32, weight: u32) -> Self {
        if !element_type.is_rounded() || factor == weight {
            return self;
        }
        // `lanes` makes units coarser by the bits of the weight, but only the factor makes these values larger.
        let bits = |number: u32| number.max(1).ilog2() as u16;
        let fine = if self.fine == 0 { 0 } else { self.fine.saturating_sub(bits(factor)) + bits(weight) };
        let floor =
            if self.floor == 0 { 0 } else { (self.floor + bits(factor)).saturating_sub(bits(weight)) };
        Self { fine, floor, ..self }
    }

    /// Returns the bound of the sum of two parts.
    pub(crate) fn joined(self, other: Self) -> Self {
        Self {
            top: self.top.max(other.top),
            fine: self.fine.max(other.fine),
            // The sum of an element's magnitudes is at least each part's floor.
            floor: self.floor.max(other.floor),
            not_finite: self.not_finite || other.not_finite,
        }
    }

    /// Returns the number of bits from the finest unit of the values to the top of their sum with this
    /// weight, for floats.
    pub(crate) fn sum_bits(self, element_type: ElementType, weight: u32) -> u32 {
        // `top` is the biased exponent of the bound, and `fine` is the biased negative exponent of the unit.
        let fine = self.fine.min(biased(-element_type.grid().1));
        let values = (u32::from(self.top) + u32::from(fine)).saturating_sub(2 * u32::from(biased(0)));
        values + u32::BITS - weight.leading_zeros()
    }

    /// Returns true if a value is NaN or infinite.
    pub(crate) fn has_not_finite(self) -> bool {
        self.not_finite
    }

    /// Returns the block's lanes for the member `rank`, whose values have this weight.
    /// The weight must not be 0.
    pub(crate) fn lanes(self, element_type: ElementType, rank: Rank, weight: u32) -> Lanes {
        // The weight makes values log2(weight) bits larger. If they are rounded, their unit may be coarser by this
        // number of bits. A product is a multiple of the type's smallest magnitude, so no finer unit is needed.
        let coarser = if element_type.is_rounded() { weight.ilog2() as u16 } else { 0 };
        let finest = biased(-element_type.grid().1);
        let fine = if self.fine == 0 { 0 } else { self.fine.saturating_sub(coarser).clamp(1, finest) };
        let floor = if self.floor == 0 { 0 } else { self.floor + coarser };
        Lanes { top: lane(self.top, rank), fine: lane(fine, rank), floor: lane(floor, rank) }
    }
}

/// Writes the extent of each block of `block` values to `out`, until `out` is full.
/// For paired elements, it is the extent of the largest magnitudes of neighbours.
pub(super) fn extents(element_type: ElementType, values: &[f32], block: usize, out: &mut [Extent]) {
    match element_type.is_paired() {
        true => vectors::extents_of_neighbours(values, block, out),
        false => vectors::extents(values, block, out),
    }
}

/// Returns the exponent of the largest power of two that is not above this magnitude.
/// The magnitude must not be 0.
fn f32_exponent(magnitude: u32) -> i32 {
    match (magnitude >> 23).cast_signed() {
        0 => (u32::BITS - magnitude.leading_zeros()).cast_signed() - 150,
        biased => biased - 127,
    }
}

fn f64_exponent(magnitude: u64) -> i32 {
    match (magnitude >> 52) as i32 {
        0 => (u64::BITS - magnitude.leading_zeros()).cast_signed() - 1075,
        biased => biased - 1023,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::lanes::{LaneRanges, owner};
    use super::*;

    const RANK: Rank = Rank::new(0x1234);

    fn of(values: &[f32]) -> Lanes {
        Bound::of_floats(ElementType::F32, values).lanes(ElementType::F32, RANK, 1)
    }

    #[test]
    fn powers_of_two_need_the_next_exponent() {
        for (value, exponent) in
            [(1.0, 1), (-1.0, 1), (0.999_999_9, 0), (f32::MAX, 128), (f32::MIN_POSITIVE, -125), (1e-45, -148)]
        {
            assert_eq!(of(&[0.0, value]).exponent(), Some(exponent), "{value}");
        }
    }

    #[test]
    fn zeros_have_no_lanes_and_what_is_not_finite_does_not_count() {
        assert_eq!(of(&[-0.0, 0.0]), Lanes::default());
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bound = Bound::of_floats(ElementType::F32, &[bad, 3.0, 0.0]);
            assert!(bound.has_not_finite());
            assert_eq!(bound.lanes(ElementType::F32, RANK, 1), of(&[3.0, 0.0]));
            let bound = Bound::of_doubles(ElementType::F64, &[f64::from(bad), 3.0, 0.0]);
            assert!(bound.has_not_finite());
            assert_eq!(bound.lanes(ElementType::F32, RANK, 1).exponent(), Some(2));
        }
    }

    #[test]
    fn integers_have_their_bits() {
        for (largest, bits) in [(0, 0), (1, 1), (7, 3), (8, 4), (1 << 31, 32), (1 << 63, 64)] {
            assert_eq!(Bound::of_magnitude(largest).lanes(ElementType::I64, RANK, 1).bits(), bits);
        }
    }

    #[test]
    fn the_larger_lane_is_the_larger_or_the_finer_one() {
        assert!(of(&[2.0]).top > of(&[1.5]).top && of(&[1e-5]).fine > of(&[1.0, 1e-3]).fine);
        assert_eq!(owner(of(&[2.0]).top), Some(RANK));
        assert_eq!((of(&[5.0, -0.3]).floor(), of(&[5.0, 0.0]).floor()), (Some(-2), None));
        let weighted = Bound::of_floats(ElementType::F32, &[1.0]).lanes(ElementType::F32, RANK, 300);
        assert_eq!(weighted.unit(), of(&[1.0]).unit().map(|unit| unit + 8));
    }

    proptest! {
        #[test]
        fn exponents_are_the_tightest(value in any::<f32>(), double in any::<f64>()) {
            prop_assume!(value.is_finite() && value != 0.0 && double.is_normal());
            let lanes = of(&[value]);
            prop_assert!(LaneRanges::of(ElementType::F32).contain(lanes));
            let (e, magnitude) = (lanes.exponent().unwrap(), f64::from(value).abs());
            prop_assert!(magnitude < 2f64.powi(e) && magnitude >= 2f64.powi(e - 1));
            prop_assert_eq!(lanes.unit().unwrap(), (e - 12).max(-149));
            let lanes = Bound::of_doubles(ElementType::F64, &[double]).lanes(ElementType::F64, RANK, 1);
            prop_assert!(LaneRanges::of(ElementType::F64).contain(lanes));
            prop_assert_eq!(lanes.unit().unwrap(), (lanes.exponent().unwrap() - 53).max(-1074));
        }
    }
}
