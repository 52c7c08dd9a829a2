//! Limits the memory that the C library's allocator keeps for freed blocks.

/// The threshold in bytes. The C library maps larger allocations one by one, and returns them to the
/// system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Fixes the threshold above which the GNU C library maps allocations.
///
/// By default the threshold rises to the size of the largest block that the process has freed. Blocks
/// below the threshold come from heaps, one for every few threads, and each heap keeps up to 64 MiB of
/// unused memory. An agent that reduced tensors of 16 MiB for an hour grew by this amount. A threshold
/// that is set explicitly stays fixed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe interface has it")]
pub(crate) fn give_large_pieces_back() {
    // SAFETY: mallopt() takes two numbers and may be called at any time. The program calls it before it
    // starts a second thread. A library that does not know the parameter returns 0 and changes nothing.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM) };
}

/// Does nothing, because other C libraries have no such heaps.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_pieces_back() {}
