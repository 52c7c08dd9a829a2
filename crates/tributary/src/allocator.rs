//! Limits the memory that the C library's allocator keeps for freed blocks.

/// Allocations of at least this many bytes are mapped one by one, and returned to the system as
/// soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Fixes the threshold from which the GNU C library maps allocations.
///
/// By default the threshold rises to the size of the largest block that the process has freed. Blocks below the
/// threshold come from heaps, one for every few threads. Each heap keeps up to 64 MiB of unused memory: in an hour of
/// 16 MiB tensors, an agent grew by as much. A threshold that is set explicitly stays fixed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe interface has it")]
pub(crate) fn give_large_pieces_back() {
    // SAFETY: mallopt() takes two numbers and may be called at any time; it is called before there is a second thread.
    // A library that does not know the parameter returns 0 and changes nothing.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM) };
}

/// Does nothing: other C libraries have no such heaps.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_pieces_back() {}
