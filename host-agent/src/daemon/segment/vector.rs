//! New vectors for copies of tensors.

use std::io;

use bytemuck::{Pod, allocation::try_zeroed_vec};
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// The size in bytes from which vectors use huge pages, if the system has any. It is the huge-page
/// size of most processors; a smaller vector cannot fill a huge page.
const HUGE_FROM: usize = 2 << 20;

/// Returns a vector of `len` zeros.
///
/// # Errors
/// Returns an error if the system has no memory for the vector.
pub(super) fn zeros<T: Pod>(len: usize) -> io::Result<Vec<T>> {
    // The system backs a large zeroed vector with zero pages, and allocates a page only on its first use.
    let mut zeros = try_zeroed_vec(len).map_err(|()| io::Error::from(io::ErrorKind::OutOfMemory))?;
    in_huge_pages(&mut zeros);
    Ok(zeros)
}

/// Requests huge pages for a new vector. They avoid a page fault for every 4 KiB, and later most of
/// the processor's page-table walks.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn in_huge_pages<T: Pod>(vector: &mut [T]) {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(vector);
    let page = page_size();
    let skipped = bytes.as_ptr().align_offset(page);
    let whole = bytes.len().saturating_sub(skipped) / page * page;
    if whole >= HUGE_FROM {
        let begin = bytes.as_mut_ptr().wrapping_add(skipped);
        // SAFETY: these pages are inside the vector, and this advice does not change their contents.
        let advised = unsafe { madvise(begin.cast(), whole, Advice::LinuxHugepage) };
        // A system without huge pages provides normal pages.
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
