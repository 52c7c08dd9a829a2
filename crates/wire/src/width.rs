//! The number of values in a slice.

use crate::constants::{MAX_BLOCKS, VALUES_PER_BLOCK};

/// The number of values in a slice: 1, 2, 4, 8 … blocks, up to [`MAX_BLOCKS`].
/// It depends on the pipelines of the switches and on the longest packet that links carry. All slices of a job have the
/// same width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceWidth {
    /// The number of blocks: a power of two, at most [`MAX_BLOCKS`].
    blocks: u8,
}

impl SliceWidth {
    /// One block: 32 values, the number that a Tofino adds in one pass.
    pub const NARROWEST: Self = Self { blocks: 1 };
    /// 256 values: the largest number that fits into Ethernet's 1,500 bytes.
    pub const ETHERNET: Self = Self { blocks: 8 };
    /// 2,048 values, which fit into 9,000 bytes.
    pub const WIDEST: Self = Self { blocks: MAX_BLOCKS };
    /// The largest number of neighbouring values that share a scale.
    pub const MOST_VALUES_IN_BLOCK: usize = 128;

    /// Returns the width of `blocks` blocks; `None` if no such width exists.
    pub const fn from_blocks(blocks: u8) -> Option<Self> {
        if blocks.is_power_of_two() && blocks <= MAX_BLOCKS { Some(Self { blocks }) } else { None }
    }

    /// Returns the width of `values` values; `None` if no such width exists.
    pub fn from_values(values: usize) -> Option<Self> {
        let per_block = usize::from(VALUES_PER_BLOCK);
        let blocks = values.is_multiple_of(per_block).then_some(values / per_block)?;
        Self::from_blocks(u8::try_from(blocks).ok()?)
    }

    /// Returns every width, the narrowest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..=MAX_BLOCKS.ilog2()).map(|doublings| Self { blocks: 1 << doublings })
    }

    /// Returns the number of blocks in a slice, as the header counts blocks.
    pub const fn blocks(self) -> u8 {
        self.blocks
    }

    /// Returns the number of values in a block of the number format, which share a scale.
    pub const fn values_in_block(self) -> usize {
        if self.values() < Self::MOST_VALUES_IN_BLOCK { self.values() } else { Self::MOST_VALUES_IN_BLOCK }
    }

    /// Returns the number of blocks of the number format in a slice.
    pub const fn blocks_of_values(self) -> usize {
        // A division by a constant is a shift.
        let blocks = self.values() / Self::MOST_VALUES_IN_BLOCK;
        if blocks == 0 { 1 } else { blocks }
    }

    /// Returns the number of SUM slices whose bounds one MAX slice carries.
    /// A MAX slice has three values for each block, behind one value for all of them.
    pub const fn slices_bounded_by_one(self) -> usize {
        (self.values() - 1) / (3 * self.blocks_of_values())
    }

    /// Returns the number of values in a slice: V in `docs/specification.md`.
    pub const fn values(self) -> usize {
        self.blocks as usize * VALUES_PER_BLOCK as usize
    }

    /// Returns the length of a slice's values in bytes.
    pub const fn bytes(self) -> usize {
        self.values() * size_of::<i32>()
    }
}
