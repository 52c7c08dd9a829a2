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
    /// Carries elements of a broadcast, which only its root sends.
    Relay(usize),
    /// Carries the further limbs of elements, and the classes of elements near NaN or infinity.
    Rest(usize),
}

/// The layout of an operation: its slices at consecutive positions.
///
/// In an all-reduce, the MAX slices come first, then the SUM slices with an equal number of elements each, then the
/// [rest](super::rest). The number of rest slices follows from the bounds.
///
/// A broadcast consists of groups: a MAX slice, and the relayed slices that follow it. Its MAX slices carry no bounds.
/// The result of a MAX slice shows that all members have room for the results of its group.
///
/// Each packet needs these numbers several times, and a division takes ten times as long as other instructions. So the
/// constructor does the divisions once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// The position of the first slice.
    pub(crate) first: u64,
    /// The number of elements of the operation.
    len: usize,
    pub(crate) width: SliceWidth,
    /// The binary logarithm of the number of elements in a value.
    in_value_bits: u32,
    blocks: usize,
    sum_slices: usize,
    max_slices: usize,
    /// The number of SUM slices whose bounds fit in one MAX slice, behind its first lane.
    /// In a broadcast, it is the number of relayed slices of a group.
    slices_in_max: usize,
    /// The binary logarithm of the number of slices of a group; `None` in an all-reduce.
    group_bits: Option<u32>,
    /// The number of rest slices; `None` until all bounds are agreed on.
    pub(crate) rest_slices: Option<u64>,
}

impl Layout {
    /// Returns the layout of an all-reduce of `len` elements.
    /// A value of a SUM slice has `in_value` elements: 1 or 2.
    pub(crate) fn new(first: u64, (len, in_value): (usize, usize), width: SliceWidth) -> Self {
        let in_value_bits = in_value.ilog2();
        let sum_slices = len.div_ceil(width.values() << in_value_bits);
        let slices_in_max = width.slices_bounded_by_one();
        Self {
            first,
            len,
            width,
            in_value_bits,
            blocks: len.div_ceil(width.values_in_block() << in_value_bits),
            sum_slices,
            // An operation without elements has one MAX slice, which makes it a barrier and carries the total weight.
            max_slices: sum_slices.div_ceil(slices_in_max).max(1),
            slices_in_max,
            group_bits: None,
            rest_slices: None,
        }
    }

    /// Returns the layout of an operation without slices at position `first`.
    pub(crate) fn without_slices(first: u64) -> Self {
        Self { max_slices: 0, rest_slices: Some(0), ..Self::new(first, (0, 1), SliceWidth::NARROWEST) }
    }

    /// Returns the layout of a broadcast, in a job with this `window`.
    /// Four groups fit into the window, so that the agreement about a group overlaps with the groups before it.
    pub(crate) fn of_broadcast(first: u64, len: usize, width: SliceWidth, window: u32) -> Self {
        let group_bits = (window / 4).max(2).ilog2();
        let (slices, slices_in_max) = (Self::new(first, (len, 1), width), (1 << group_bits) - 1);
        Self {
            blocks: 0,
            max_slices: slices.sum_slices.div_ceil(slices_in_max).max(1),
            slices_in_max,
            group_bits: Some(group_bits),
            rest_slices: Some(0),
            ..slices
        }
    }

    pub(crate) fn sum_slices(&self) -> usize {
        self.sum_slices
    }

    pub(crate) fn max_slices(&self) -> usize {
        self.max_slices
    }

    /// Returns the number of elements that a SUM slice carries.
    pub(crate) fn elements_in_slice(&self) -> usize {
        self.width.values() << self.in_value_bits
    }

    /// Returns the number of elements in a block, which share a scale.
    pub(crate) fn block(&self) -> usize {
        self.width.values_in_block() << self.in_value_bits
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
    pub(crate) fn max_positions(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, bits) = (self.first, self.group_bits.unwrap_or(0));
        (0..self.max_slices as u64).map(move |index| first + (index << bits))
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
        if let Some(bits) = self.group_bits {
            let (group, in_group) = (index >> bits, index & ((1 << bits) - 1));
            let relayed = in_group.checked_sub(1).map(|slice| group * self.slices_in_max + slice);
            return relayed.map_or(SliceRole::Max(group), SliceRole::Relay);
        }
        index.checked_sub(self.max_slices).map_or(SliceRole::Max(index), SliceRole::Sum)
    }

    /// Returns the SUM slices whose bounds MAX slice `index` carries, or the relayed slices of its group.
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
    /// In a broadcast, these are the relayed slices of its group.
    /// The range is empty if the slice at `position` is not a MAX slice.
    pub(crate) fn bounded_by(&self, position: u64) -> Range<u64> {
        match self.part(position) {
            SliceRole::Max(index) => {
                let slices = self.slices_bounded_in(index);
                let first = match self.group_bits {
                    Some(_) => position + 1,
                    None => self.first_sum() + slices.start as u64,
                };
                first..first + slices.len() as u64
            }
            SliceRole::Sum(_) | SliceRole::Relay(_) | SliceRole::Rest(_) => 0..0,
        }
    }

    /// Returns the position before which a member must have all results to send the slice at `position`.
    /// It must also have the result of the slice one window before.
    ///
    /// Other members do not contribute to a relayed slice, so the server may finish it while a member still lacks the
    /// result of the slice one window before, which the server then forgets. The MAX slice of the group prevents that.
    pub(crate) fn needs_results_before(&self, position: u64, window: u64) -> u64 {
        match self.group_bits {
            Some(_) => self.bounded_by(position).end.saturating_sub(window),
            None => 0,
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
        let first_of = |slice: usize| (slice * self.elements_in_slice()).min(self.len);
        first_of(slices.start)..first_of(slices.end)
    }

    /// Returns the elements of a block.
    pub(crate) fn elements_of_block(&self, block: usize) -> Range<usize> {
        let first_of = |block: usize| (block * self.block()).min(self.len);
        first_of(block)..first_of(block + 1)
    }
}
