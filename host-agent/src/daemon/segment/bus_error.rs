//! Access to memory that may vanish: another process shortens the file behind a mapping.
//!
//! The kernel answers an access to a page beyond the file's end with SIGBUS, which ends the process. [`survive`] turns
//! that into a word on the mapping: the signal's handler puts other memory in the place of the pages that are accessed,
//! so that the access ends, and notes that the mapping is lost. Compositors guard the buffers of their clients in this
//! way.
//!
//! That memory is one small file for all mappings, made beforehand: what they find in it is not used, and in its
//! handler the process must not depend on the system's having memory for it.

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

/// Part of a mapping that a thread accesses at the moment.
struct Accessed<'a> {
    /// Whole pages.
    addresses: Range<usize>,
    lost: &'a AtomicBool,
}

/// The state that the signal handler needs.
struct Prepared {
    /// The action of SIGBUS before this handler.
    before: libc::sigaction,
    /// The memory that takes the place of what is lost: as much as pages with [`PIECE_BYTES`] bytes have.
    substitute: OwnedFd,
}

thread_local! {
    /// The memory that this thread accesses within [`survive`]; null outside of it.
    /// The signal handler reads this pointer, so the pointer needs neither initialisation nor a destructor.
    static ACCESSED: Cell<*const Accessed<'static>> = const { Cell::new(ptr::null()) };
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// Prepares the process for [`survive`]; has an effect once.
///
/// # Errors
/// The system's.
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

/// Runs `access`, which reads or writes memory at these addresses only: at most [`PIECE_BYTES`] bytes
/// of a mapping of a file. Afterwards `lost` says whether there was something else in the place of its pages, perhaps
/// since an earlier access.
pub(super) fn survive(addresses: Range<usize>, lost: &AtomicBool, access: impl FnOnce()) {
    let page = page_size();
    let addresses = addresses.start / page * page..addresses.end.next_multiple_of(page);
    let accessed = Accessed { addresses, lost };
    ACCESSED.set(ptr::from_ref(&accessed).cast());
    // The handler runs on this thread: only the compiler could put the access before or after this.
    compiler_fence(Ordering::SeqCst);
    access();
    compiler_fence(Ordering::SeqCst);
    ACCESSED.set(ptr::null());
}

/// Sets what SIGBUS does, if something is given, and returns what it did.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn exchange(next: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
    // SAFETY: all zeros are a valid value of this plain structure.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call, or null, which means "nothing". The handler that is set does only
    // what is allowed in one.
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

/// Only calls what is allowed in a signal handler: system calls, atomics, and a thread-local value
/// without initialisation.
#[allow(unsafe_code, reason = "the kernel calls it")]
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid description with SA_SIGINFO; for a SIGBUS of its own, with an address.
    let (from_kernel, address) = unsafe { ((*info).si_code > 0, (*info).si_addr().addr()) };
    // SAFETY: it is null or points to a value in the frame of `survive`, on this thread, which is inside `access`.
    let accessed = unsafe { ACCESSED.get().as_ref() };
    let accessed = accessed.filter(|accessed| from_kernel && accessed.addresses.contains(&address));
    let Some(prepared) = PREPARED.get() else { return };
    if accessed.is_some_and(|accessed| replace(accessed, &prepared.substitute)) {
        return;
    }
    // The signal is not for this handler. If the kernel sent it, the previous handler gets it again, since the access
    // is repeated. A signal from a process, which requests the end of this process, would be lost, so the handler
    // raises it again.
    match from_kernel {
        // Without effect at worst; then the signal comes again.
        true => drop(exchange(Some(&prepared.before))),
        false => end_by(signal),
    }
}

/// Ends the process by this signal, once its handler has returned.
#[allow(unsafe_code, reason = "no safe interface has it")]
fn end_by(signal: c_int) {
    // SAFETY: both may be called in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Puts the substitute in the place of pages; false if the system refuses.
#[allow(unsafe_code, reason = "as for `on_bus_error`")]
fn replace(accessed: &Accessed<'_>, substitute: &OwnedFd) -> bool {
    // First: a thread that reads the substitute must find this afterwards.
    accessed.lost.store(true, Ordering::SeqCst);
    let Range { start, end } = accessed.addresses;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    let begin = ptr::with_exposed_provenance_mut(start);
    // SAFETY: the addresses are pages of one mapping, which lives as long as the access to it. Nothing refers to its
    // memory but copies that are under way, and what they find is not used, since it is lost.
    unsafe { mmap(begin, end - start, protection, flags, substitute, 0) }.is_ok()
}
