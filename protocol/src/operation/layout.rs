//! Where the slices of an operation are.

use std::ops::Range;

use tributary_wire::SliceWidth;

/// What one slice of an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SliceRole {
    /// Carries the bounds of as many SUM slices as it has values.
    Max(usize),
    /// Carries elements.
    Sum(usize),
}

/// An operation's slices: those with the operator MAX first, then those with SUM, at consecutive positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Position of the first slice.
    pub(crate) first: u64,
    /// Elements in all.
    pub(crate) len: usize,
    /// How many of them a slice carries.
    pub(crate) width: SliceWidth,
}

impl Layout {
    pub(crate) fn sum_slices(&self) -> usize {
        self.len.div_ceil(self.width.values())
    }

    /// Even no elements take one MAX slice: it makes the operation a barrier, and says the total weight.
    pub(crate) fn max_slices(&self) -> usize {
        self.sum_slices().div_ceil(self.width.values()).max(1)
    }

    /// One past the position of the last slice.
    pub(crate) fn end(&self) -> u64 {
        self.first_sum() + self.sum_slices() as u64
    }

    /// Positions of the MAX slices.
    pub(crate) fn max_positions(&self) -> Range<u64> {
        self.first..self.first_sum()
    }

    fn first_sum(&self) -> u64 {
        self.first + self.max_slices() as u64
    }

    pub(crate) fn part(&self, position: u64) -> SliceRole {
        let index = (position - self.first) as usize;
        index.checked_sub(self.max_slices()).map_or(SliceRole::Max(index), SliceRole::Sum)
    }

    /// Which SUM slices have their bounds in MAX slice `index`.
    pub(crate) fn bounds_in(&self, index: usize) -> Range<usize> {
        let slices = self.sum_slices();
        let first = (index * self.width.values()).min(slices);
        first..(first + self.width.values()).min(slices)
    }

    /// Positions of the SUM slices whose bounds the MAX slice at `position` carries; none if it is a SUM slice.
    pub(crate) fn bounded_by(&self, position: u64) -> Range<u64> {
        match self.part(position) {
            SliceRole::Max(index) => {
                let slices = self.bounds_in(index);
                self.first_sum() + slices.start as u64..self.first_sum() + slices.end as u64
            }
            SliceRole::Sum(_) => 0..0,
        }
    }

    /// Which MAX slice carries the bounds of SUM slice `slice`.
    pub(crate) fn bound_of(&self, slice: usize) -> usize {
        slice / self.width.values()
    }

    /// The elements that SUM slice `slice` carries.
    pub(crate) fn elements(&self, slice: usize) -> Range<usize> {
        self.elements_of(slice..slice + 1)
    }

    /// The elements that these SUM slices carry.
    pub(crate) fn elements_of(&self, slices: Range<usize>) -> Range<usize> {
        let first_of = |slice: usize| (slice * self.width.values()).min(self.len);
        first_of(slices.start)..first_of(slices.end)
    }
}
