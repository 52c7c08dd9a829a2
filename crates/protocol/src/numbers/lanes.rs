//! Lanes, the values of MAX slices:
//! the form in which members agree on the [bounds](super::bound) of a block.
//!
//! A block has three lanes.
//!
//! * The *top* lane gives the magnitude of the values. For floats it is the smallest exponent e with |x| < 2^e for
//!   every finite x. For integers it is the smallest number of bits with |x| < 2^bits.
//! * The *fine* lane, only for floats, gives the exponent of the coarsest unit that is fine enough for the member's
//!   smallest value that is not 0.
//! * The *floor* lane, only for f32 that may be rounded, is the largest exponent f with |x| >= 2^f for every x. The sum
//!   of an element's magnitudes over all members is at least the largest of their floors. So it may be rounded relative
//!   to that floor, even if the fine lane requests a finer unit.
//!
//! Lanes are biased so that 0 means "no such value". A member that needs more range or a finer unit sends a larger top
//! or fine lane, and the floor of the sum is the largest floor of all members. So the fabric's MAX computes the lanes
//! that serve all members.
//!
//! The low half of a lane is the rank of the member that sends it. So each agreed lane has one owner, who confirms it
//! in the tag of its SUM slice. A lane that a switch has raised has no owner that confirms it.
//!
//! The first lane of each MAX slice names a member that has NaN or infinity in the slice's blocks, or that withholds its
//! contribution to them, if there is one.

use tributary_wire::Rank;

use super::data::ElementType;

/// The bias that makes the exponents in lanes positive, including the exponents of f64.
const BIAS: i32 = 1100;
/// The number of bits of the rank in a lane.
const RANK_BITS: u32 = 16;

/// The lanes of one block: one member's lanes, or the agreed lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Lanes {
    pub(crate) top: u32,
    pub(crate) fine: u32,
    pub(crate) floor: u32,
}

impl Lanes {
    /// The number of lanes of a block.
    pub(crate) const COUNT: usize = 3;

    /// Reads the lanes of a block from its values in a MAX slice.
    #[inline]
    pub(crate) fn of_values(&[top, fine, floor]: &[i32; Self::COUNT]) -> Self {
        Self { top: top.cast_unsigned(), fine: fine.cast_unsigned(), floor: floor.cast_unsigned() }
    }

    /// Returns the values of the block in a MAX slice.
    #[inline]
    pub(crate) fn values(self) -> [i32; Self::COUNT] {
        [self.top.cast_signed(), self.fine.cast_signed(), self.floor.cast_signed()]
    }

    /// Returns the exponent e of the agreed bound |x| < 2^e, for floats; `None` if all values are zeros.
    pub(super) fn exponent(self) -> Option<i32> {
        (self.top != 0).then(|| i32::from(value(self.top)) - BIAS)
    }

    /// Returns the number of bits of the agreed bound |x| < 2^bits, for integers.
    pub(super) fn bits(self) -> i32 {
        value(self.top).into()
    }

    /// Returns the exponent of the coarsest unit that serves all members, for floats.
    pub(super) fn unit(self) -> Option<i32> {
        (self.fine != 0).then(|| BIAS - i32::from(value(self.fine)))
    }

    /// Returns the exponent f of |x| >= 2^f for all values of one member, for f32 that may be rounded.
    pub(super) fn floor(self) -> Option<i32> {
        (self.floor != 0).then(|| i32::from(value(self.floor)) - BIAS)
    }
}

/// The ranges of values that the lanes of a block can have, except 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneRanges {
    top: LaneRange,
    fine: LaneRange,
    floor: LaneRange,
    are_floats: bool,
}

impl LaneRanges {
    /// Returns the ranges for elements of this type.
    pub(crate) fn of(element_type: ElementType) -> Self {
        let Some(exponents) = element_type.float_exponents() else {
            return Self {
                top: LaneRange { least: 1, most: 64 },
                fine: LaneRange::EMPTY,
                floor: LaneRange::EMPTY,
                are_floats: false,
            };
        };
        // The weights of members can make units up to 30 bits coarser.
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
        // The check has no branches, because they would be hard to predict: the blocks are independent.
        self.top.contains(lanes.top)
            & self.fine.contains(lanes.fine)
            & self.floor.contains(lanes.floor)
            & (!self.are_floats | ((lanes.top == 0) == (lanes.fine == 0)))
    }
}

/// The smallest and the largest value of a lane that is not 0.
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

/// Returns the rank in a lane, or in the first lane of a MAX slice; `None` if the lane is 0.
pub(crate) fn owner(lane: u32) -> Option<Rank> {
    (lane != 0).then_some(Rank::new(lane as u16))
}

/// The first lane of a MAX slice, for a member that has NaN or infinity in its blocks.
const NOT_FINITE: u16 = 1;
/// The first lane of a MAX slice, for a member that withholds its contribution.
/// It is the largest value, so that all members receive it.
const WITHHELD: u16 = 2;

/// Returns the first lane of a MAX slice, for a member that has NaN or infinity in its blocks.
pub(crate) fn not_finite_lane(rank: Rank) -> u32 {
    lane(NOT_FINITE, rank)
}

/// Returns the first lane of a MAX slice, for a member that withholds its contribution.
pub(crate) fn withheld_lane(rank: Rank) -> u32 {
    lane(WITHHELD, rank)
}

/// Returns the member that withholds its contribution according to the first lane of a MAX slice.
pub(crate) fn withholder(first: u32) -> Option<Rank> {
    owner(first).filter(|_| value(first) == WITHHELD)
}

/// Returns true if a member can have sent this first lane of a MAX slice.
pub(crate) fn is_first_lane(first: u32) -> bool {
    first == 0 || (NOT_FINITE..=WITHHELD).contains(&value(first))
}

pub(super) fn lane(value: u16, rank: Rank) -> u32 {
    if value == 0 { 0 } else { u32::from(value) << RANK_BITS | u32::from(rank.get()) }
}

fn value(lane: u32) -> u16 {
    (lane >> RANK_BITS) as u16
}

pub(super) fn biased(exponent: i32) -> u16 {
    (BIAS + exponent) as u16
}
