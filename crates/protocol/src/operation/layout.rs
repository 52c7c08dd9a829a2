//! The positions of the slices of an operation.

use std::ops::Range;

use tributary_wire::SliceWidth;

/// The role of one slice of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SliceRole {
    /// Carries the bounds of several SUM slices.
    Max(usize),
    /// Carries elements.
    Sum(usize),
    /// Carries the further limbs of elements, and the classes of elements near NaN or infinity.
    Rest(usize),
}

/// The layout of an operation: its slices at consecutive positions.
/// The MAX slices come first, then the SUM slices with an equal number of elements each, then the [rest](super::rest).
/// The number of rest slices follows from the bounds.
///
/// Each packet needs these numbers several times, and a division takes ten times as long as other instructions. So the
/// constructor does the divisions once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// The position of the first slice.
    pub(crate) first: u64,
    /// The number of elements of the operation.
    len: usize,
    /// The number of elements that a SUM slice carries.
    pub(crate) width: SliceWidth,
    blocks: usize,
    sum_slices: usize,
    max_slices: usize,
    /// The number of SUM slices whose bounds fit in one MAX slice, behind its first lane.
    slices_in_max: usize,
    /// The number of rest slices; `None` until all bounds are agreed on.
    pub(crate) rest_slices: Option<u64>,
}

impl Layout {
    pub(crate) fn new(first: u64, len: usize, width: SliceWidth) -> Self {
        let (sum_slices, slices_in_max) = (len.div_ceil(width.values()), width.slices_bounded_by_one());
        Self {
            first,
            len,
            width,
            blocks: len.div_ceil(width.values_in_block()),
            sum_slices,
            // An operation without elements has one MAX slice, which makes it a barrier and carries the total weight.
            max_slices: sum_slices.div_ceil(slices_in_max).max(1),
            slices_in_max,
            rest_slices: None,
        }
    }

    pub(crate) fn sum_slices(&self) -> usize {
        self.sum_slices
    }

    pub(crate) fn max_slices(&self) -> usize {
        self.max_slices
    }

    /// Returns the number of elements in a block, which share a scale.
    pub(crate) fn block(&self) -> usize {
        self.width.values_in_block()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns the position behind the last slice; `None` until all bounds are agreed on.
    pub(crate) fn end(&self) -> Option<u64> {
        Some(self.first_rest() + self.rest_slices?)
    }

    /// Returns the position behind the last known slice. Rest slices are known once all bounds are agreed
    /// on.
    pub(crate) fn known_end(&self) -> u64 {
        self.first_rest() + self.rest_slices.unwrap_or(0)
    }

    /// Returns the positions of the MAX slices.
    pub(crate) fn max_positions(&self) -> Range<u64> {
        self.first..self.first_sum()
    }

    /// Returns the positions of the rest slices; an empty range until all bounds are agreed on.
    pub(crate) fn rest_positions(&self) -> Range<u64> {
        self.first_rest()..self.known_end()
    }

    fn first_sum(&self) -> u64 {
        self.first + self.max_slices as u64
    }

    fn first_rest(&self) -> u64 {
        self.first_sum() + self.sum_slices as u64
    }

    pub(crate) fn part(&self, position: u64) -> SliceRole {
        if let Some(index) = position.checked_sub(self.first_rest()) {
            return SliceRole::Rest(index as usize);
        }
        let index = (position - self.first) as usize;
        index.checked_sub(self.max_slices).map_or(SliceRole::Max(index), SliceRole::Sum)
    }

    /// Returns the SUM slices whose bounds MAX slice `index` carries.
    pub(crate) fn slices_bounded_in(&self, index: usize) -> Range<usize> {
        let slices = self.sum_slices;
        let first = (index * self.slices_in_max).min(slices);
        first..(first + self.slices_in_max).min(slices)
    }

    /// Returns the blocks whose bounds MAX slice `index` carries.
    pub(crate) fn blocks_bounded_in(&self, index: usize) -> Range<usize> {
        self.blocks_of(self.slices_bounded_in(index))
    }

    /// Returns the positions of the SUM slices whose bounds the MAX slice at `position` carries.
    /// The range is empty if the slice at `position` is not a MAX slice.
    pub(crate) fn bounded_by(&self, position: u64) -> Range<u64> {
        match self.part(position) {
            SliceRole::Max(index) => {
                let slices = self.slices_bounded_in(index);
                self.first_sum() + slices.start as u64..self.first_sum() + slices.end as u64
            }
            SliceRole::Sum(_) | SliceRole::Rest(_) => 0..0,
        }
    }

    /// Returns the MAX slice that carries the bounds of SUM slice `slice`.
    pub(crate) fn bound_of(&self, slice: usize) -> usize {
        slice / self.slices_in_max
    }

    /// Returns the SUM slice that contains a block.
    pub(crate) fn slice_of(&self, block: usize) -> usize {
        block / self.width.blocks_of_values()
    }

    /// Returns the blocks in the SUM slices `slices`.
    pub(crate) fn blocks_of(&self, slices: Range<usize>) -> Range<usize> {
        let first_of = |slice: usize| (slice * self.width.blocks_of_values()).min(self.blocks);
        first_of(slices.start)..first_of(slices.end)
    }

    /// Returns the elements that SUM slice `slice` carries.
    pub(crate) fn elements(&self, slice: usize) -> Range<usize> {
        self.elements_of(slice..slice + 1)
    }

    /// Returns the elements that the SUM slices `slices` carry.
    pub(crate) fn elements_of(&self, slices: Range<usize>) -> Range<usize> {
        let first_of = |slice: usize| (slice * self.width.values()).min(self.len);
        first_of(slices.start)..first_of(slices.end)
    }

    /// Returns the elements of a block.
    pub(crate) fn elements_of_block(&self, block: usize) -> Range<usize> {
        let first_of = |block: usize| (block * self.block()).min(self.len);
        first_of(block)..first_of(block + 1)
    }
}
