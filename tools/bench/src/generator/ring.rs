//! Receives single frames through a ring of slots in memory (`TPACKET_V2`).
//!
//! The kernel writes the frames into the slots, so that the generator needs no system call for a batch and
//! copies nothing.
//!
//! The generator does not use the ring of `link`, because the yardstick must not change with the measured
//! code.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{io, ptr, slice};

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::GeneratorError;
use super::socket::{self, failed};

/// The number of slots of a ring for each item in flight.
///
/// An item that is sent again may arrive twice, and the ring must not lose frames, because a loss would be
/// charged to the switch. With many more slots, each frame would be written to memory that is in no
/// processor's cache.
const SLOTS_AN_ITEM: usize = 4;
/// The largest size of a ring in bytes, for any number of items in flight.
const MOST_BYTES: usize = 64 << 20;
/// The smallest block of a ring, in bytes. Slots are a power of two long, so that blocks have no gaps.
const BLOCK_BYTES: usize = 64 << 10;
/// The bytes of a slot beyond the expected frame length.
///
/// They hold the kernel's header. If the switch has made a frame longer, they also hold the surplus, so that the error is
/// detected.
const ROOM: usize = 1024;

/// A packet socket that receives single frames.
#[derive(Debug)]
pub(super) struct Ring {
    interface: String,
    socket: OwnedFd,
    memory: MmapRaw,
    slot_bytes: usize,
    slots: usize,
    /// The slot of the next frame, or of the frame that the caller holds.
    at: usize,
    /// True while the caller holds a frame.
    ///
    /// The next call returns the slot of this frame to the kernel.
    holds: bool,
}

impl Ring {
    /// Opens a socket for IPv4 frames on this interface of the calling thread's network namespace.
    ///
    /// `frame_bytes` is the approximate length of a frame, and `window` is the number of frames in flight.
    pub(super) fn open(interface: &str, (frame_bytes, window): (usize, u32)) -> Result<Self, GeneratorError> {
        let failed = |step| failed(interface, step);
        let socket = socket::open(interface, libc::ETH_P_IP as u16)?;
        let slot_bytes = (frame_bytes + ROOM).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let number =
            |number| libc::c_uint::try_from(number).map_err(|_| failed("lay out a ring")(Errno::INVAL));
        let wanted = (window as usize).saturating_mul(SLOTS_AN_ITEM * slot_bytes).min(MOST_BYTES);
        let bytes = wanted.next_multiple_of(block_bytes);
        let slots = bytes / slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: number(block_bytes)?,
            tp_block_nr: number(bytes / block_bytes)?,
            tp_frame_size: number(slot_bytes)?,
            tp_frame_nr: number(slots)?,
        };
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_option(&socket, libc::PACKET_VERSION, &version).map_err(failed("choose a kind of ring"))?;
        set_option(&socket, libc::PACKET_RX_RING, &request).map_err(failed("make a ring"))?;
        let memory = MmapOptions::new().len(bytes).populate().map_raw(&socket);
        let memory = memory.map_err(|error| failed("map a ring")(errno(&error)))?;
        Ok(Self { interface: interface.to_owned(), socket, memory, slot_bytes, slots, at: 0, holds: false })
    }

    /// Returns the next frame, or `None` if no frame has arrived.
    /// The previous frame goes back to the kernel.
    #[allow(unsafe_code)]
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if std::mem::take(&mut self.holds) {
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.at = (self.at + 1) % self.slots;
        }
        self.holds = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        if !self.holds {
            return None;
        }
        let slot = self.slot();
        // SAFETY: the slot begins with this header, which consists of plain numbers. The slot's status says
        // that this process owns the slot, so that the kernel does not write to it.
        let head = unsafe { ptr::read(slot.cast::<libc::tpacket2_hdr>()) };
        let begin = usize::from(head.tp_mac).min(self.slot_bytes);
        let len = (head.tp_snaplen as usize).min(self.slot_bytes - begin);
        // SAFETY: the two minima keep these bytes in the slot. The slot is in the memory, which lives as long
        // as `self`. Only the next call returns the slot to the kernel, and that call needs a mutable borrow
        // of `self`.
        Some(unsafe { slice::from_raw_parts(slot.wrapping_add(begin), len) })
    }

    /// Waits up to `patience` for a frame.
    pub(super) fn wait(&self, patience: Duration) -> Result<(), GeneratorError> {
        let failed = failed(&self.interface, "receive frames");
        let timeout = Timespec::try_from(patience).map_err(|_| failed(Errno::INVAL))?;
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Returns the beginning of the present slot. It is inside the memory, and aligned to its size.
    fn slot(&self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(self.at * self.slot_bytes)
    }

    /// Returns the status of the present slot, which says if the kernel or this process owns the slot.
    #[allow(unsafe_code)]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, an aligned u32 in memory that lives as long as `self`. The
        // kernel also reads and writes the status only as a whole.
        unsafe { AtomicU32::from_ptr(self.slot().cast()) }
    }
}

/// Sets an option of a packet socket, because rustix supports none of them.
#[allow(unsafe_code)]
fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> Result<(), Errno> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer is to a value of `len` bytes, which the call only reads.
    let answer = unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len) };
    if answer == 0 { Ok(()) } else { Err(errno(&io::Error::last_os_error())) }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
