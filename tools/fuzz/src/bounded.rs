//! Memory limits for reading.
//!
//! Input bytes must not be able to make a program use many times their size in memory.

use allocation_counter::measure;

/// Runs `read` with at most `most` bytes of memory at once.
pub(crate) fn within<T>(most: usize, what: &str, read: impl FnOnce() -> T) -> T {
    let mut outcome = None;
    let taken = measure(|| outcome = Some(read())).bytes_max;
    assert!(taken <= most as u64, "{what} took {taken} bytes of memory, and {most} should do");
    crate::finding::sound(outcome.ok_or("nothing was read"))
}
