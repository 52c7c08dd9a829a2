//! Prefetching: the processor loads memory into its cache before the program needs it.

/// The number of bytes that a processor's cache loads at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Loads these values into the cache while the processor does other work.
/// A tensor is far larger than the caches, and whole packets pass through them between one slice and the next. So the
/// processor's own prefetcher loses track of the tensor.
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

/// Does nothing, because the compiler has no such instruction for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn prefetch<T>(_: &[T]) {}
