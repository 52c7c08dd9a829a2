//! How the C library's allocator treats large pieces of memory.

/// Pieces from so many bytes on are mapped one by one, and given back to the system as soon as they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: libc::c_int = 1 << 20;

/// Left alone, the GNU C library takes pieces as large as those that were freed out of heaps, of which there is one for each
/// few threads, and each keeps up to 64 MiB that nobody uses: an agent grew by as much over an hour of tensors of
/// 16 MiB. To set the limit is to keep it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no safe interface has it")]
pub(crate) fn give_large_pieces_back() {
    // SAFETY: mallopt() takes two numbers and may be called at any time; it is done before there is a second thread.
    // A library that does not know the parameter says so by 0, and changes nothing.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM) };
}

/// Other C libraries do without such heaps.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_large_pieces_back() {}
