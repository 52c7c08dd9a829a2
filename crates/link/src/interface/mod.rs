//! Ports on Linux network interfaces, over `AF_PACKET` sockets.
//!
//! Frames come in through a [ring] in memory that the kernel shares with this process, and go [out](send) many at a
//! time by one system call: system calls cost more than everything else that a switch does with a frame. pnet_datalink
//! is not an option: it waits in a `select` of its own, gives no descriptor to register with mio, and returns a
//! switch's own outgoing frames.
//!
//! An owner that wants only some of the frames says [which](filter), and the kernel leaves out the others.
//!
//! Frames leave through the interface's queueing discipline, so that `tc` rates and nftables rules apply to them,
//! unless the owner wants them to go [past](xdp) it, which is faster and ignores both.
//!
//! Three habits of the kernel matter here. It takes the first VLAN tag off a frame before a socket receives the frame;
//! the port puts it back, so that frames have all of their tags, as on the wire. Frames of a host on the same machine
//! have [unfinished](offload) checksums; the port finishes them. And where a host has joined many datagrams into one
//! frame, the port [splits](joined) it; ports also [join](send) datagrams themselves if configured to do so. TCP
//! segments are not split: such a frame is dropped if it is longer than the MTU, unless segmentation offload of the
//! host's interface is off (`ethtool -K`).
//!
//! A frame longer than the interface's MTU at the time when the port was opened is dropped. A frame that is too long
//! only because of its VLAN tags comes in with up to two of them; on the way out the kernel allows for one tag, and
//! only for an 802.1Q one.

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
use send::Outgoing;
use xdp::XdpSender;

/// A port that sends and receives all frames of a Linux interface. Needs the capability `CAP_NET_RAW`.
#[derive(Debug)]
pub struct InterfacePort {
    name: String,
    index: libc::c_int,
    socket: OwnedFd,
    incoming: Ring,
    /// Frames that were [sent](FramePort::send), and wait for others.
    queued: Frames,
    outgoing: Outgoing,
    meter: InterfaceMeter,
    mtu: usize,
}

impl InterfacePort {
    /// Opens the interface `name` of the calling thread's network namespace, in promiscuous mode.
    /// The port does not receive what this host sends through the interface.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step
    /// that failed.
    pub fn open(name: &str) -> Result<Self, LinkError> {
        let meter = InterfaceMeter::default();
        let fail = |step| move |errno| socket::failed(name, step, errno);
        let (socket, index, mtu) = socket::open_promiscuous(name)?;
        let incoming = Ring::new(&socket, name, mtu, &meter).map_err(fail("make a ring for frames"))?;
        let outgoing = Outgoing::new(socket::open_to_send(name, index)?, meter.sent.clone());
        // Last: before, nothing is received.
        socket::bind(&socket, index, libc::ETH_P_ALL as u16).map_err(fail("receive frames"))?;
        Ok(Self { name: name.into(), index, socket, incoming, queued: Frames::new(), outgoing, meter, mtu })
    }

    /// The same port; if `wanted`, it joins neighbouring datagrams of one stream, as the kernel joins TCP
    /// segments (UDP segmentation offload): they cross a virtual cable as one frame, which takes a fraction of the
    /// time. As many are joined as the interface takes now (`gso_max_size` and `gso_max_segs`): behind a token bucket,
    /// these should be no more than it lets pass at once. This has no effect on interfaces of another kind, if the
    /// interface's offloads are off, or before Linux 6.2. The other end must be a port like this or a host's kernel:
    /// another reader of raw frames gets one that is longer than the MTU.
    #[must_use]
    pub fn with_segmentation_offload(mut self, wanted: bool) -> Self {
        if wanted && let Some(limits) = Segmentation::of(&self.socket, &self.name, self.index) {
            self.outgoing.put_together(self.longest_frame(), limits);
        }
        self
    }

    /// The same port; if `wanted`, its frames leave past the interface's queueing discipline, by an
    /// `AF_XDP` socket: over a virtual cable that takes a quarter less time. Rates and queues (`tc`), nftables' rules
    /// for what leaves, and captures at this end of what leaves have no effect then. Frames of more than 3,840 bytes go
    /// the usual way, and all frames of interfaces of another kind.
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

    /// Counters of the frames that this port has sent and received. A clone may outlive the port.
    pub fn meter(&self) -> &InterfaceMeter {
        &self.meter
    }
}

/// The error of an interface that frames cannot be handed to.
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
