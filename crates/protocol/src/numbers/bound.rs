//! Bounds, which MAX slices carry: how large and how fine one member's values are, for each block of
//! neighbouring values.
//!
//! A block has three lanes. The *top* lane says how large its values are: for floats the smallest exponent e with |x| < 2^e for
//! every finite x, for integers the smallest number of bits with |x| < 2^bits. The *fine* lane, which only floats have, says
//! the exponent of the coarsest unit that is fine enough for the member's smallest value that is not 0. The *floor* lane, which
//! only f32 that may be rounded has, is the largest exponent f with |x| >= 2^f for every x: the sum of an element's magnitudes
//! over all members is at least the largest of their floors, so that it may be rounded by as much, whatever the fine lane asks
//! for. All are biased so that 0 means "no such value", and so that the lane grows: the fabric's MAX serves all members.
//!
//! The low half of a lane is the rank of the member that it comes from. So each agreed lane has one owner, who confirms it
//! in the tag of its SUM slice: a lane that a switch has raised has none.
//!
//! The first lane of each MAX slice names a member that has NaN or infinity in the slice's blocks, if there is one.

use tributary_wire::Rank;

use super::data::ElementType;
use super::vectors::{self, Extent};

/// Keeps the exponents in lanes positive, those of f64 included.
const BIAS: i32 = 1100;
/// Bits of the rank in a lane.
const RANK_BITS: u32 = 16;

const F32_INFINITY: u32 = 0x7f80_0000;
const F64_INFINITY: u64 = 0x7ff0_0000_0000_0000;

/// The bound of one block of one member's values. The default is that of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bound {
    top: u16,
    fine: u16,
    floor: u16,
    /// Some value is NaN or infinite; the rest is about the others.
    not_finite: bool,
}

impl Bound {
    /// For floats, from the least exponents of two above the largest and at or below the smallest magnitude
    /// that is not 0. `has_zero`: there are zeros, too.
    fn of_exponents(element_type: ElementType, above: i32, least: i32, has_zero: bool) -> Self {
        let (digits, lowest) = element_type.grid();
        let unit = (least - digits).max(lowest);
        let floor = if has_zero || element_type != ElementType::F32 { 0 } else { biased(least) };
        Self { top: biased(above), fine: biased(-unit), floor, not_finite: false }
    }

    /// The bound of a block of f32, or of 16-bit floats that were widened.
    pub(crate) fn of_floats(element_type: ElementType, values: &[f32]) -> Self {
        Self::of_extent(element_type, values, vectors::extent(values))
    }

    /// The same, where the block's [extent](vectors::extent) is known.
    pub(crate) fn of_extent(
        element_type: ElementType,
        values: &[f32],
        Extent { largest, least, has_zero }: Extent,
    ) -> Self {
        if largest == 0 {
            return Self::default();
        }
        if largest >= F32_INFINITY {
            let finite: Vec<f32> = values.iter().copied().filter(|value| value.is_finite()).collect();
            return Self { not_finite: true, floor: 0, ..Self::of_floats(element_type, &finite) };
        }
        Self::of_exponents(element_type, f32_exponent(largest) + 1, f32_exponent(least), has_zero)
    }

    /// The bound of a block of f64.
    pub(crate) fn of_doubles(element_type: ElementType, values: &[f64]) -> Self {
        let magnitudes = || values.iter().map(|value| value.abs().to_bits());
        let finite = || magnitudes().filter(|bits| (1..F64_INFINITY).contains(bits));
        let bound = finite().max().zip(finite().min()).map(|(largest, least)| {
            Self::of_exponents(element_type, f64_exponent(largest) + 1, f64_exponent(least), true)
        });
        Self { not_finite: magnitudes().any(|bits| bits >= F64_INFINITY), ..bound.unwrap_or_default() }
    }

    /// The bound of a block of i32.
    pub(crate) fn of_integers(values: &[i32]) -> Self {
        Self::of_magnitude(vectors::largest_integer(values).into())
    }

    /// The bound of a block of i64.
    pub(crate) fn of_long_integers(values: &[i64]) -> Self {
        Self::of_magnitude(vectors::largest_long_integer(values))
    }

    /// The bound of a block of integers, from its largest magnitude.
    pub(crate) fn of_magnitude(largest: u64) -> Self {
        Self { top: (u64::BITS - largest.leading_zeros()) as u16, ..Self::default() }
    }

    /// Returns true if some value is NaN or infinite.
    pub(crate) fn has_not_finite(self) -> bool {
        self.not_finite
    }

    /// The block's lanes: this member's rank is `rank`, and its values have this weight, which is not 0.
    pub(crate) fn lanes(self, element_type: ElementType, rank: Rank, weight: u32) -> Lanes {
        // Values that are multiplied by the weight are as many bits larger, and where they are rounded, their unit may be.
        let coarser = if element_type == ElementType::F32 { weight.ilog2() as u16 } else { 0 };
        let fine = if self.fine == 0 { 0 } else { self.fine.saturating_sub(coarser).max(1) };
        let floor = if self.floor == 0 { 0 } else { self.floor + coarser };
        Lanes { top: lane(self.top, rank), fine: lane(fine, rank), floor: lane(floor, rank) }
    }
}

/// The lanes of one block, as one member sends them or as all have agreed on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Lanes {
    pub(crate) top: u32,
    pub(crate) fine: u32,
    pub(crate) floor: u32,
}

impl Lanes {
    /// Number of bounds.
    pub(crate) const COUNT: usize = 3;

    /// From a block's values in a MAX slice.
    #[inline]
    pub(crate) fn of_values(&[top, fine, floor]: &[i32; Self::COUNT]) -> Self {
        Self { top: top.cast_unsigned(), fine: fine.cast_unsigned(), floor: floor.cast_unsigned() }
    }

    /// The block's values in a MAX slice.
    #[inline]
    pub(crate) fn values(self) -> [i32; Self::COUNT] {
        [self.top.cast_signed(), self.fine.cast_signed(), self.floor.cast_signed()]
    }

    /// The exponent e of the agreed |x| < 2^e, for floats; `None` if all values are zeros.
    pub(super) fn exponent(self) -> Option<i32> {
        (self.top != 0).then(|| i32::from(value(self.top)) - BIAS)
    }

    /// The bits of the agreed |x| < 2^bits, for integers.
    pub(super) fn bits(self) -> i32 {
        value(self.top).into()
    }

    /// The exponent of the coarsest unit that serves all members, for floats.
    pub(super) fn unit(self) -> Option<i32> {
        (self.fine != 0).then(|| BIAS - i32::from(value(self.fine)))
    }

    /// The exponent f of |x| >= 2^f for all values of one member, for f32 that may be rounded.
    pub(super) fn floor(self) -> Option<i32> {
        (self.floor != 0).then(|| i32::from(value(self.floor)) - BIAS)
    }
}

/// The values that the lanes of a block can have, unless they are 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneRanges {
    top: LaneRange,
    fine: LaneRange,
    floor: LaneRange,
    are_floats: bool,
}

impl LaneRanges {
    /// For elements of this type.
    pub(crate) fn of(element_type: ElementType) -> Self {
        let Some(exponents) = element_type.float_exponents() else {
            return Self {
                top: LaneRange { least: 1, most: 64 },
                fine: LaneRange::EMPTY,
                floor: LaneRange::EMPTY,
                are_floats: false,
            };
        };
        // Members' weights make units up to 30 bits coarser.
        let (lowest, coarsest) = (element_type.grid().1, exponents.end() + 30);
        Self {
            top: LaneRange { least: biased(*exponents.start()), most: biased(*exponents.end()) },
            fine: LaneRange { least: biased(-coarsest), most: biased(-lowest) },
            floor: LaneRange { least: biased(lowest), most: biased(coarsest) },
            are_floats: true,
        }
    }

    /// Returns true if members can have sent these lanes.
    #[inline]
    pub(crate) fn contain(&self, lanes: Lanes) -> bool {
        // Without branches: the lanes of one block say little about those of the next.
        self.top.contains(lanes.top)
            & self.fine.contains(lanes.fine)
            & self.floor.contains(lanes.floor)
            & (!self.are_floats | ((lanes.top == 0) == (lanes.fine == 0)))
    }
}

/// The least and the largest value of a lane that is not 0.
#[derive(Debug, Clone, Copy)]
struct LaneRange {
    least: u16,
    most: u16,
}

impl LaneRange {
    const EMPTY: Self = Self { least: 1, most: 0 };

    #[inline]
    fn contains(self, lane: u32) -> bool {
        (lane == 0) | ((value(lane) >= self.least) & (value(lane) <= self.most))
    }
}

/// The rank that a lane, or the first lane of a MAX slice, names.
pub(crate) fn owner(lane: u32) -> Option<Rank> {
    (lane != 0).then_some(Rank::new(lane as u16))
}

/// The first lane of a MAX slice in whose blocks this member has NaN or infinity.
pub(crate) fn not_finite_lane(rank: Rank) -> u32 {
    lane(1, rank)
}

fn lane(value: u16, rank: Rank) -> u32 {
    if value == 0 { 0 } else { u32::from(value) << RANK_BITS | u32::from(rank.get()) }
}

fn value(lane: u32) -> u16 {
    (lane >> RANK_BITS) as u16
}

fn biased(exponent: i32) -> u16 {
    (BIAS + exponent) as u16
}

/// The exponent of the largest power of two that is not above this magnitude, which is not 0.
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
