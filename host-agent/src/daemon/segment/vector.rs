//! New vectors for copies of tensors.

use std::io;

use bytemuck::{Pod, allocation::try_zeroed_vec};
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// Vectors from so many bytes on are put into huge pages where the system has some: the size of such a page on most
/// processors. A smaller vector has room for none.
const HUGE_FROM: usize = 2 << 20;

/// A vector of so many zeros.
///
/// # Errors
/// The system has no memory for it.
pub(super) fn zeros<T: Pod>(len: usize) -> io::Result<Vec<T>> {
    // Large ones come from the system as zeros, so that no page is there before it is used.
    let mut zeros = try_zeroed_vec(len).map_err(|()| io::Error::from(io::ErrorKind::OutOfMemory))?;
    in_huge_pages(&mut zeros);
    Ok(zeros)
}

/// Asks for huge pages for a new vector. They save a page fault for every 4 KiB, and later most of the processor's
/// searches for where a page is.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn in_huge_pages<T: Pod>(vector: &mut [T]) {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(vector);
    let page = page_size();
    let skipped = bytes.as_ptr().align_offset(page);
    let whole = bytes.len().saturating_sub(skipped) / page * page;
    if whole >= HUGE_FROM {
        let begin = bytes.as_mut_ptr().wrapping_add(skipped);
        // SAFETY: these pages are inside the vector, and this advice changes nothing of their contents.
        let advised = unsafe { madvise(begin.cast(), whole, Advice::LinuxHugepage) };
        // A system that has none gives its usual pages.
        let _: Result<(), _> = advised;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_zeros_however_many() {
        for len in [0, 1, HUGE_FROM / 4, HUGE_FROM + 3] {
            assert_eq!(zeros::<f32>(len).unwrap(), vec![0.0; len]);
        }
        assert_eq!(zeros::<u8>(usize::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }
}
