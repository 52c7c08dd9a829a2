//! Memory for wide values.

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};

use crate::program::{LIMBS, Line};

/// The size of a huge page on most processors.
/// Memory of fewer bytes is not put into huge pages.
const HUGE_PAGE: usize = 2 << 20;
const LIMB_BYTES: usize = size_of::<u64>();

/// A fixed number of lines.
///
/// Each line is exactly one of the processor's cache lines. With the alignment of a usual vector,
/// each line would lie in two cache lines, and each access would take two.
///
/// Large memory lies in huge pages if the system has some. Registers are larger than the
/// processor's caches, and a packet uses cells that were last used a whole window ago. The lookup
/// of their pages took a fifth of the time of storing the values.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The lines, and unused limbs in front of the first aligned line.
    limbs: Vec<u64>,
    first: usize,
    end: usize,
}

impl Lines {
    /// Returns `count` lines of zeros. The system provides large memory at the first access.
    pub(crate) fn zeros(count: usize) -> Self {
        let len = count * LIMBS;
        let is_large = len * LIMB_BYTES >= HUGE_PAGE;
        let alignment = if is_large { HUGE_PAGE } else { size_of::<Line>() };
        let limbs = vec![0; len + alignment / LIMB_BYTES];
        let first = limbs.as_ptr().align_offset(alignment);
        let mut lines = Self { limbs, first, end: first + len };
        if is_large {
            lines.put_into_huge_pages();
        }
        lines
    }

    #[allow(unsafe_code, reason = "no safe interface has it")]
    fn put_into_huge_pages(&mut self) {
        let lines = self.as_flattened_mut();
        let whole = size_of_val(lines) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: these bytes are inside the vector, they begin at a page boundary, and the advice
        // does not change their contents.
        let advised = unsafe { madvise(lines.as_mut_ptr().cast(), whole, Advice::LinuxHugepage) };
        // A system without huge pages uses its normal pages.
        let _: Result<(), _> = advised;
    }
}

impl From<&[Line]> for Lines {
    fn from(values: &[Line]) -> Self {
        let mut lines = Self::zeros(values.len());
        lines.copy_from_slice(values);
        lines
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        self.limbs[self.first..self.end].as_chunks().0
    }
}

impl DerefMut for Lines {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Line] {
        self.limbs[self.first..self.end].as_chunks_mut().0
    }
}

/// Clears lines, and does nothing if there are none.
///
/// For no lines, the C library would do a store with an empty mask. At an address without memory,
/// such a store takes a processor as long as the lookup of a packet.
#[inline]
pub(crate) fn clear(lines: &mut [Line]) {
    if !lines.is_empty() {
        lines.as_flattened_mut().fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zeros_and_aligned_however_many() {
        for count in [0, 1, 3, HUGE_PAGE / size_of::<Line>(), HUGE_PAGE / size_of::<Line>() + 1] {
            let mut lines = Lines::zeros(count);
            assert_eq!(lines.len(), count);
            assert!(lines.as_ptr().addr().is_multiple_of(size_of::<Line>()));
            assert!(lines.iter().all(|line| *line == [0; LIMBS]));
            lines.fill([7; LIMBS]);
            assert_eq!(lines.iter().flatten().sum::<u64>(), 7 * (count * LIMBS) as u64);
        }
    }
}
