//! How much memory reading takes. Who sends bytes must not be able to make us take many times as much.

use allocation_counter::measure;

/// Runs `read`, which may have `most` bytes of memory at once.
pub(crate) fn within<T>(most: usize, what: &str, read: impl FnOnce() -> T) -> T {
    let mut outcome = None;
    let taken = measure(|| outcome = Some(read())).bytes_max;
    assert!(taken <= most as u64, "{what} took {taken} bytes of memory, and {most} should do");
    crate::finding::sound(outcome.ok_or("nothing was read"))
}
