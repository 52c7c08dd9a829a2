//! Ports on Linux network interfaces, over `AF_PACKET` sockets.
//!
//! The port receives frames through a [ring] in memory that the kernel shares with this process, and [sends](send) many
//! frames with one system call. The reason is that system calls cost more than all other work of a switch on a frame.
//! The crate pnet_datalink cannot be used: it waits in its own `select`, provides no descriptor to register with mio,
//! and returns a switch's own outgoing frames.
//!
//! If the owner needs only some of the frames, it sets a [filter], and the kernel drops the other frames.
//!
//! Frames leave through the interface's queueing discipline, so that `tc` rates and nftables rules apply to them. The
//! owner may let them [bypass](xdp) it, which is faster and ignores both.
//!
//! Three properties of the kernel matter here:
//!
//! - The kernel removes the first VLAN tag from a frame before a socket receives the frame. The port puts the tag back,
//!   so that frames have all of their tags, as on the wire.
//! - Frames of a host on the same machine have [unfinished](offload) checksums. The port finishes them.
//! - A host may have joined many datagrams into one frame. The port [splits](joined) it. Ports also [join](send)
//!   datagrams themselves if configured to do so. TCP segments are not split: the port drops such a frame if it is
//!   longer than the MTU, unless segmentation offload of the host's interface is off (`ethtool -K`).
//!
//! The port drops a frame that is longer than the interface's MTU at the time when the port was opened. A received
//! frame may exceed it by up to two VLAN tags. For a sent frame, the kernel allows only one tag, which must be an
//! 802.1Q tag.

mod condition;
mod datagram;
mod ether_type;
mod filter;
mod joined;
mod merging;
mod muted;
mod offload;
mod ring;
mod segmentation;
mod send;
mod socket;
mod vlan;
mod xdp;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use crate::error::LinkError;
use crate::meter::InterfaceMeter;
use crate::{BATCH, FramePort, Frames, MAX_FRAME_BYTES, MIN_FRAME_BYTES, Mark, check_length};
pub use condition::InterfaceCondition;
pub use ether_type::EtherTypePort;
pub use merging::Merging;
pub use muted::MutedUdpPort;
use ring::Ring;
use segmentation::Segmentation;
pub use segmentation::split_datagrams;
use send::PortSender;
use xdp::XdpSender;

/// A port that sends and receives all frames of a Linux interface. Needs the capability `CAP_NET_RAW`.
#[derive(Debug)]
pub struct InterfacePort {
    name: String,
    index: libc::c_int,
    socket: OwnedFd,
    incoming: Ring,
    /// Frames that [`send`](FramePort::send) has queued.
    queued: Frames,
    outgoing: PortSender,
    meter: InterfaceMeter,
    mtu: usize,
}

impl InterfacePort {
    /// Opens the interface `name` of the calling thread's network namespace in promiscuous mode. The port
    /// does not receive the frames that this host sends through the interface.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step
    /// that failed.
    pub fn open(name: &str) -> Result<Self, LinkError> {
        let meter = InterfaceMeter::default();
        let fail = |step| move |errno| socket::failed(name, step, errno);
        let (socket, index, mtu) = socket::open_promiscuous(name)?;
        let incoming = Ring::new(&socket, name, mtu, &meter).map_err(fail("make a ring for frames"))?;
        let outgoing = PortSender::new(socket::open_to_send(name, index)?, meter.sent.clone());
        // The socket is bound last, because it receives frames from then on.
        socket::bind(&socket, index, libc::ETH_P_ALL as u16).map_err(fail("receive frames"))?;
        Ok(Self { name: name.into(), index, socket, incoming, queued: Frames::new(), outgoing, meter, mtu })
    }

    /// If `wanted`, lets the port join neighbouring datagrams of one stream, as the kernel joins TCP
    /// segments (UDP segmentation offload). The joined datagrams cross a virtual cable as one frame, which takes a
    /// fraction of the time.
    ///
    /// The interface's present limits (`gso_max_size` and `gso_max_segs`) apply. Behind a token bucket, these should
    /// not exceed the burst that it lets pass. The option has no effect on other kinds of interfaces, if the
    /// interface's offloads are off, or before Linux 6.2. The other end must be a port like this or a host's kernel,
    /// because other readers of raw frames get a frame that is longer than the MTU.
    #[must_use]
    pub fn with_segmentation_offload(mut self, wanted: bool) -> Self {
        if wanted && let Some(limits) = Segmentation::of(&self.socket, &self.name, self.index) {
            self.outgoing.put_together(self.longest_frame(), limits);
        }
        self
    }

    /// If `wanted`, lets frames bypass the interface's queueing discipline, with an `AF_XDP` socket. Over
    /// a virtual cable, this takes a quarter less time. Rates and queues (`tc`), nftables rules for outgoing frames,
    /// and captures of outgoing frames at this end then have no effect. Frames of more than 3,840 bytes, and all frames
    /// of other kinds of interfaces, still take the usual way.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], or [`LinkError::Interface`] with the step that failed.
    pub fn with_queue_bypass(mut self, wanted: bool) -> Result<Self, LinkError> {
        if wanted && condition::is_cable(&self.socket, &self.name) {
            self.outgoing.bypass_queue(XdpSender::open(
                &self.name,
                self.index.cast_unsigned(),
                self.longest_frame(),
            )?);
        }
        Ok(self)
    }

    /// Returns the counters of the frames that this port has sent and received. A clone may outlive the
    /// port.
    pub fn meter(&self) -> &InterfaceMeter {
        &self.meter
    }
}

/// Returns the error of an interface that cannot send any more.
fn unsendable(name: &str, errno: Errno) -> io::Error {
    let error = io::Error::from(errno);
    io::Error::new(error.kind(), format!("cannot send on network interface {name}: {error}"))
}

impl FramePort for InterfacePort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        check_length(frame)?;
        self.queued.try_add(frame.len(), |place| {
            place.copy_from_slice(frame);
            io::Result::Ok(frame.len())
        })?;
        if self.queued.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let frames: Vec<_> = self.queued.iter().collect();
        let sent = self.outgoing.send(&frames);
        self.queued.clear();
        sent.map_err(|errno| unsendable(&self.name, errno))
    }

    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        frames.iter().try_for_each(|frame| check_length(frame))?;
        self.flush()?;
        let sent = frames.chunks(BATCH).try_for_each(|frames| self.outgoing.send(frames));
        sent.map_err(|errno| unsendable(&self.name, errno))
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(self.incoming.next(&self.socket))
    }

    fn longest_frame(&self) -> usize {
        (MIN_FRAME_BYTES + self.mtu).min(MAX_FRAME_BYTES)
    }

    fn pass_only(&mut self, marks: &[Mark]) -> io::Result<()> {
        filter::pass_only(&self.socket, marks)
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.socket.as_raw_fd()), token, Interest::READABLE)
    }
}
