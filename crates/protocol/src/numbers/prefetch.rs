//! Prefetching: requests memory before it is needed.

/// The bytes that a processor's cache moves at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Lets the processor fetch these values while it does other things.
/// A tensor is far larger than its caches, and between one slice and the next whole packets go through them, so that it
/// forgets which memory comes next.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "no safe interface has it")]
#[inline(always)]
pub(super) fn prefetch<T>(values: &[T]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    for line in values.chunks((CACHE_LINE / size_of::<T>().max(1)).max(1)) {
        // SAFETY: this is a hint. It reads nothing that a program could see, and an address can do no harm.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Does nothing: the compiler has no such instruction for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn prefetch<T>(_: &[T]) {}
