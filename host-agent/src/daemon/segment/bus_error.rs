//! Access to mapped memory that may vanish because another process shortens the mapped file.
//!
//! The kernel answers an access to a page beyond the file's end with SIGBUS, which by default ends the process.
//! [`survive`] catches the signal during one access. The signal handler replaces the accessed pages by substitute
//! memory, so that the access completes, and marks the mapping as lost. Compositors protect themselves from their
//! clients' buffers in this way.
//!
//! The substitute memory is one small file for all mappings. It is allocated in advance, because the handler must not
//! depend on free memory. Its contents do not matter, because the caller discards data from a lost mapping.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use libc::{c_void, siginfo_t};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::param::page_size;

/// The most bytes that are accessed at once.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The part of a mapping that a thread accesses at the moment.
struct Accessed<'a> {
    /// The addresses of whole pages.
    addresses: Range<usize>,
    lost: &'a AtomicBool,
}

/// The state that the signal handler needs.
struct Prepared {
    /// The action for SIGBUS before this module set its handler.
    before: libc::sigaction,
    /// The memory that replaces lost pages. It is large enough for all pages that [`PIECE_BYTES`] bytes
    /// can touch.
    substitute: OwnedFd,
}

thread_local! {
    /// The memory that this thread accesses within [`survive`]; null outside of it.
    /// The signal handler reads this pointer, so the pointer needs neither initialisation nor a destructor.
    static ACCESSED: Cell<*const Accessed<'static>> = const { Cell::new(ptr::null()) };
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// Prepares the process for [`survive`]. Only the first call has an effect.
///
/// # Errors
/// The system error that prevents the preparation.
pub(super) fn prepare() -> io::Result<()> {
    static OUTCOME: OnceLock<Result<(), Errno>> = OnceLock::new();
    let outcome = OUTCOME.get_or_init(|| {
        let substitute = memfd_create("tributary-lost", MemfdFlags::CLOEXEC)?;
        fallocate(&substitute, FallocateFlags::empty(), 0, (PIECE_BYTES + 2 * page_size()) as u64)?;
        let prepared = Prepared { before: exchange(None)?, substitute };
        PREPARED.get_or_init(|| prepared);
        exchange(Some(&handler())).map(drop)
    });
    Ok((*outcome)?)
}

/// Runs `access`, which must read or write only the memory at `addresses`: at most [`PIECE_BYTES`]
/// bytes of a file's mapping. Afterwards `lost` is true if substitute memory has replaced pages of the mapping, in this
/// access or an earlier one.
pub(super) fn survive(addresses: Range<usize>, lost: &AtomicBool, access: impl FnOnce()) {
    let page = page_size();
    let addresses = addresses.start / page * page..addresses.end.next_multiple_of(page);
    let accessed = Accessed { addresses, lost };
    ACCESSED.set(ptr::from_ref(&accessed).cast());
    // The handler runs on this thread, so only the compiler could move the access across this line.
    compiler_fence(Ordering::SeqCst);
    access();
    compiler_fence(Ordering::SeqCst);
    ACCESSED.set(ptr::null());
}

/// Sets the action for SIGBUS if `next` is given. Returns the previous action.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn exchange(next: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call or null, and null means "no change". The handler that is set does
    // only what a signal handler may do.
    match unsafe { libc::sigaction(libc::SIGBUS, next.map_or(ptr::null(), ptr::from_ref), &raw mut before) } {
        0 => Ok(before),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[allow(unsafe_code, reason = "as for `exchange`")]
fn handler() -> libc::sigaction {
    // SAFETY: all zeros are a valid value of this plain structure: no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action
}

/// Handles SIGBUS. It uses only what a signal handler may use: system calls, atomics, and a
/// thread-local value without initialisation.
#[allow(unsafe_code, reason = "the kernel calls it")]
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: with SA_SIGINFO, the kernel passes a valid description. For a SIGBUS from the kernel, it has an address.
    let (from_kernel, address) = unsafe { ((*info).si_code > 0, (*info).si_addr().addr()) };
    // SAFETY: the pointer is null or points to a value in the frame of `survive` on this thread, which runs `access`.
    let accessed = unsafe { ACCESSED.get().as_ref() };
    let accessed = accessed.filter(|accessed| from_kernel && accessed.addresses.contains(&address));
    let Some(prepared) = PREPARED.get() else { return };
    if accessed.is_some_and(|accessed| replace(accessed, &prepared.substitute)) {
        return;
    }
    // The signal is not for this handler. If the kernel sent it, the handler restores the previous action, and the
    // repeated access raises the signal again. A signal from another process, which wants this process to end, would be
    // lost, so the handler raises it again.
    match from_kernel {
        // If this call fails, the repeated access raises the signal again.
        true => drop(exchange(Some(&prepared.before))),
        false => end_by(signal),
    }
}

/// Ends the process by this signal as soon as its handler has returned.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn end_by(signal: c_int) {
    // SAFETY: a signal handler may call both functions.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Replaces the accessed pages by the substitute; returns false if the system refuses.
#[allow(unsafe_code, reason = "as for `on_bus_error`")]
fn replace(accessed: &Accessed<'_>, substitute: &OwnedFd) -> bool {
    // The flag is set first, because a thread that reads the substitute must find it set afterwards.
    accessed.lost.store(true, Ordering::SeqCst);
    let Range { start, end } = accessed.addresses;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    let begin = ptr::with_exposed_provenance_mut(start);
    // SAFETY: the addresses are pages of one mapping, which outlives the access to it. Only copies that are under way
    // refer to its memory, and their data is discarded because the mapping is lost.
    unsafe { mmap(begin, end - start, protection, flags, substitute, 0) }.is_ok()
}
