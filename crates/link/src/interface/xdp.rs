//! Sending frames by an `AF_XDP` socket, which bypasses the interface's queueing discipline and most
//! of a packet socket's work for each frame. Over a veth pair, this takes a quarter less time. Receiving by such a
//! socket took more time.
//! receiving by one took more.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use std::{fmt, thread};

use rustix::io::Errno;
use rustix::net::SendFlags;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{OptName, SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, Packet, RingConfigBuilder, TxRing, Umem};

use super::socket::failed;
use crate::error::LinkError;
use crate::meter::DirectionMeter;

/// The number of frames that can wait until the kernel has sent them; a power of two.
const FRAMES: u32 = 128;
/// The longest frame in bytes: a page without the part that the kernel needs for itself.
const MOST_BYTES: usize = 4096 - 256;
/// Time that the kernel may need to release an interface after its socket was closed, for example by
/// an earlier switch.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);
/// The number of the first queue, which every virtual cable has.
const FIRST_QUEUE: u32 = 0;

/// The sending half of a port that bypasses the interface's queue.
pub(super) struct XdpSender {
    // The fields are dropped in this order. The memory must be dropped after the socket, which refers to it.
    socket: XdpSocket,
    ring: TxRing,
    completed: CompletionRing,
    memory: Umem,
    longest: usize,
    /// The lengths of the frames that the kernel has not sent yet, in order.
    under_way: VecDeque<usize>,
    /// True if the interface was down at the last request to send.
    is_down: bool,
}

impl XdpSender {
    /// Opens a sender for the interface `name`, which has this index and sends frames of up to `longest`
    /// bytes.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], or [`LinkError::Interface`] with the step that failed, for example because another
    /// program has such a socket on this interface.
    pub(super) fn open(name: &str, index: u32, longest: usize) -> Result<Self, LinkError> {
        let deadline = Instant::now() + GIVEN_UP_WITHIN;
        loop {
            match Self::try_open(name, index, longest) {
                Err(LinkError::Interface { reason, .. })
                    if reason.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline =>
                {
                    thread::sleep(PAUSE);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(name: &str, index: u32, longest: usize) -> Result<Self, LinkError> {
        let misfit = |error: xdp::error::Error| {
            refused(name, "lay out memory for an AF_XDP socket")(io::Error::new(
                ErrorKind::InvalidInput,
                error.to_string(),
            ))
        };
        let layout =
            UmemCfgBuilder { frame_size: FrameSize::FourK, frame_count: FRAMES, ..Default::default() };
        let memory = Umem::map(layout.build().map_err(misfit)?)
            .map_err(refused(name, "map memory for an AF_XDP socket"))?;
        // The socket receives nothing. The fill ring exists only because the kernel requires one.
        let rings =
            RingConfigBuilder { rx_count: 0, fill_count: 1, tx_count: FRAMES, completion_count: FRAMES };
        let failed = |error| {
            let step = match &error {
                SocketError::SetSockOpt { option: OptName::UmemRegion, .. } => {
                    "lock memory for an AF_XDP socket (is `ulimit -l` too low?)"
                }
                _ => "make an AF_XDP socket",
            };
            refused(name, step)(reason(error))
        };
        let mut socket = XdpSocketBuilder::new().map_err(failed)?;
        let (rings, mut flags) =
            socket.build_rings(&memory, rings.build().map_err(misfit)?).map_err(failed)?;
        // Copying is necessary, because a virtual cable's frames are in the kernel's own memory.
        flags.force_copy();
        let socket = socket.bind(NicIndex::new(index), FIRST_QUEUE, flags).map_err(|error| {
            refused(name, "bind an AF_XDP socket (does another program have one there?)")(reason(error))
        })?;
        let ring = rings.tx_ring.ok_or_else(|| failed(SocketError::Bind(ErrorKind::Unsupported.into())))?;
        let completed = rings.completion_ring;
        let (longest, under_way) = (longest.min(MOST_BYTES), VecDeque::with_capacity(FRAMES as usize));
        Ok(Self { socket, ring, completed, memory, longest, under_way, is_down: false })
    }

    /// Returns the length of the longest frame that this socket sends, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Passes frames to the kernel, and counts the sent and the dropped frames. No frame may be [too
    /// long](Self::longest). A frame is dropped if the ring is full, if the interface is down, or if the other end does
    /// not accept the frame.
    ///
    /// # Errors
    /// The kernel's error if the interface does not exist any more.
    #[allow(unsafe_code)]
    pub(super) fn send(&mut self, frames: &[&[u8]], meter: &DirectionMeter) -> Result<(), Errno> {
        if self.is_down || !self.under_way.is_empty() {
            self.send_under_way(meter)?;
        }
        if self.is_down {
            meter.count_all_dropped(frames.len() as u64);
            return Ok(());
        }
        let mut packets = HeapSlab::with_capacity(frames.len());
        for frame in frames {
            match self.packet(frame) {
                Some(packet) => {
                    packets.push_front(packet);
                    self.under_way.push_back(frame.len());
                }
                None => meter.count_dropped(),
            }
        }
        // SAFETY: the packets belong to `self.memory`, which is dropped after the socket because of the order of the
        // fields. The ring has room for as many packets as that memory.
        unsafe { self.ring.send(&mut packets) };
        self.send_under_way(meter)
    }

    /// Lets the kernel send the frames in the ring. Frames stay in the ring if the kernel cannot send
    /// them now, for example because the interface has just gone down.
    fn send_under_way(&mut self, meter: &DirectionMeter) -> Result<(), Errno> {
        loop {
            let called = self.call();
            // The kernel stops at a frame that the other end does not accept, because it is too long or the other end
            // is down.
            let taken = self.take_back(called == Err(Errno::BUSY), meter);
            self.is_down = called == Err(Errno::NETDOWN);
            match called {
                Ok(()) | Err(Errno::NETDOWN | Errno::NOBUFS | Errno::NOMEM) => return Ok(()),
                Err(Errno::BUSY | Errno::INTR) => {}
                // The kernel sends only a limited number of frames in one call.
                Err(Errno::AGAIN) if taken > 0 => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    #[allow(unsafe_code)]
    fn call(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is open as long as `self.socket` lives.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket.raw_fd()) };
        rustix::net::send(socket, &[], SendFlags::DONTWAIT).map(|_nothing| ())
    }

    /// Copies the frame to memory that is shared with the kernel; `None` if that memory is full.
    #[allow(unsafe_code)]
    fn packet(&mut self, frame: &[u8]) -> Option<Packet> {
        // SAFETY: the packet goes into the ring or back to the memory before `self` is dropped.
        let mut packet = unsafe { self.memory.alloc() }?;
        match packet.append(frame) {
            Ok(()) => Some(packet),
            Err(_) => {
                self.memory.free_packet(packet);
                None
            }
        }
    }

    /// Takes back the memory of frames that the kernel has finished, and counts these frames. The last of
    /// them was dropped if `last_is_dropped`. Returns their number.
    fn take_back(&mut self, last_is_dropped: bool, meter: &DirectionMeter) -> usize {
        let mut taken = 0;
        loop {
            let some = self.completed.dequeue(&mut self.memory, FRAMES as usize);
            if some == 0 {
                break;
            }
            taken += some;
        }
        let sent = if last_is_dropped { taken.saturating_sub(1) } else { taken };
        let mut lengths = self.under_way.drain(..taken.min(self.under_way.len()));
        let bytes = lengths.by_ref().take(sent).sum();
        meter.count_all_carried(sent, bytes);
        meter.count_all_dropped((taken - sent) as u64);
        taken
    }
}

impl fmt::Debug for XdpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpSender").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

/// Returns the kernel's reason for an error.
fn reason(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(reason) | SocketError::Bind(reason) => reason,
        SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner,
    }
}

fn refused(name: &str, step: &'static str) -> impl Fn(io::Error) -> LinkError + Copy {
    move |reason| match Errno::from_io_error(&reason) {
        Some(errno) => failed(name, step, errno),
        None => LinkError::Interface { name: name.into(), step, reason },
    }
}
