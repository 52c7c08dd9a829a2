//! Lanes, which MAX slices carry:
//! the form in which members agree on the [bounds](super::bound) of a block's values.
//!
//! A block has three lanes. The *top* lane says how large its values are: for floats the smallest exponent e with |x| <
//! 2^e for every finite x, for integers the smallest number of bits with |x| < 2^bits. The *fine* lane, which only
//! floats have, says the exponent of the coarsest unit that is fine enough for the member's smallest value that is not
//! 0. The *floor* lane, which only f32 that may be rounded has, is the largest exponent f with |x| >= 2^f for every x:
//! the sum of an element's magnitudes over all members is at least the largest of their floors, so that it may be
//! rounded by as much, whatever the fine lane requests. All are biased so that 0 means "no such value", and so that the
//! lane grows: the fabric's MAX serves all members.
//!
//! The low half of a lane is the rank of the member that it comes from. So each agreed lane has one owner, who confirms it
//! in the tag of its SUM slice: a lane that a switch has raised has none.
//!
//! The first lane of each MAX slice names a member that has NaN or infinity in the slice's blocks, if there is one.

use tributary_wire::Rank;

use super::data::ElementType;

/// Keeps the exponents in lanes positive, those of f64 included.
const BIAS: i32 = 1100;
/// Bits of the rank in a lane.
const RANK_BITS: u32 = 16;

/// The lanes of one block, as one member sends them or as all have agreed on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Lanes {
    pub(crate) top: u32,
    pub(crate) fine: u32,
    pub(crate) floor: u32,
}

impl Lanes {
    /// Number of lanes.
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

pub(super) fn lane(value: u16, rank: Rank) -> u32 {
    if value == 0 { 0 } else { u32::from(value) << RANK_BITS | u32::from(rank.get()) }
}

fn value(lane: u32) -> u16 {
    (lane >> RANK_BITS) as u16
}

pub(super) fn biased(exponent: i32) -> u16 {
    (BIAS + exponent) as u16
}
