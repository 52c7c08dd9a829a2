//! Ports on Linux network interfaces, over `AF_PACKET` sockets.
//!
//! The socket is opened with rustix, whose `recv` tells a cut frame from a whole one and fills a plain
//! `&mut [u8]`, and its options are set with libc. pnet_datalink does not serve: it waits in a `select` of
//! its own, gives no descriptor to register with mio, and hands a switch its own outgoing frames back.
//!
//! Two habits of the kernel to know: it takes VLAN tags off before a socket sees the frame, and frames of
//! a host on the same machine may arrive with unfinished TCP and UDP checksums and longer than the MTU
//! unless checksum and segmentation offloads of that interface are off (`ethtool -K`). INA packets carry
//! no UDP checksum and are short, so neither concerns them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::LinkError;
use crate::meter::InterfaceMeter;
use crate::{FramePort, MAX_FRAME_BYTES, check_length};

/// Memory asked for in each direction's socket buffer: several windows of slices from dozens of children,
/// in the kernel's own counting, which is about two bytes for one of ours.
const SOCKET_BUFFER_BYTES: libc::c_int = 8 << 20;

/// A port that sends and receives every frame of one Linux interface. Needs the right `CAP_NET_RAW`.
#[derive(Debug)]
pub struct InterfacePort {
    name: String,
    socket: OwnedFd,
    buffer: Box<[u8]>,
    meter: InterfaceMeter,
}

impl InterfacePort {
    /// Opens the interface `name` of the calling thread's network namespace, in promiscuous mode. The port
    /// does not receive what this host sends through the interface.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step
    /// that failed.
    pub fn open(name: &str) -> Result<Self, LinkError> {
        let fail = |step| {
            move |errno: Errno| match errno {
                Errno::PERM | Errno::ACCESS => LinkError::NotPermitted { name: name.into() },
                Errno::NODEV => LinkError::NoInterface { name: name.into() },
                _ => LinkError::Interface { name: name.into(), step, source: errno.into() },
            }
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Protocol 0: until `bind` names the interface, nothing is received from any other.
        let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(fail("open a packet socket"))?;
        let index = rustix::net::netdevice::name_to_index(&socket, name).map_err(fail("find the index"))?;
        let index = libc::c_int::try_from(index).map_err(|_| fail("find the index")(Errno::OVERFLOW))?;
        ignore_outgoing(&socket).map_err(fail("leave out outgoing frames"))?;
        be_promiscuous(&socket, index).map_err(fail("enter promiscuous mode"))?;
        enlarge_buffers(&socket);
        bind(&socket, index).map_err(fail("receive frames"))?;
        let buffer = vec![0; MAX_FRAME_BYTES].into_boxed_slice();
        Ok(Self { name: name.into(), socket, buffer, meter: InterfaceMeter::default() })
    }

    /// Counters of what this port has sent and received. A clone of them lives on after the port.
    pub fn meter(&self) -> &InterfaceMeter {
        &self.meter
    }

    fn broken(&self, doing: &str, errno: Errno) -> io::Error {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("{doing} on network interface {}: {error}", self.name))
    }
}

impl FramePort for InterfacePort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        check_length(frame)?;
        loop {
            match rustix::net::send(&self.socket, frame, SendFlags::DONTWAIT) {
                Ok(_) => self.meter.sent.count_carried(frame.len()),
                Err(Errno::INTR) => continue,
                // A full queue, an interface that is down, a frame longer than its MTU.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::MSGSIZE) => {
                    self.meter.sent.count_dropped();
                }
                Err(errno) => return Err(self.broken("cannot send", errno)),
            }
            return Ok(());
        }
    }

    /// Every frame goes out with its own system call, in [`send`](Self::send).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            match rustix::net::recv(&self.socket, &mut *self.buffer, flags) {
                Ok((copied, len)) if copied < len => self.meter.received.count_dropped(),
                Ok((_, len)) => {
                    self.meter.received.count_carried(len);
                    return Ok(self.buffer.get(..len));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // NETDOWN is told once, when the interface goes down; it may come up again.
                Err(Errno::INTR | Errno::NETDOWN) => {}
                Err(errno) => return Err(self.broken("cannot receive", errno)),
            }
        }
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.socket.as_raw_fd()), token, Interest::READABLE)
    }
}

fn ignore_outgoing(socket: &OwnedFd) -> Result<(), Errno> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
}

/// As a membership, which the kernel takes back when the socket is closed, not as the interface's flag.
fn be_promiscuous(socket: &OwnedFd, index: libc::c_int) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// As far as this process may: beyond the system's limit with `CAP_NET_ADMIN`, up to it without. A port
/// with small buffers works, and loses more in a burst.
fn enlarge_buffers(socket: &OwnedFd) {
    let both = [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)];
    for (beyond_limit, up_to_limit) in both {
        if set_option(socket, libc::SOL_SOCKET, beyond_limit, &SOCKET_BUFFER_BYTES).is_err() {
            let _ = set_option(socket, libc::SOL_SOCKET, up_to_limit, &SOCKET_BUFFER_BYTES);
        }
    }
}

/// Sets a socket option to a plain C value: neither libc nor rustix has a safe way for the packet options.
#[allow(unsafe_code)]
fn set_option<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to `len` readable bytes that outlive the call, which only reads them; a value
    // that does not fit the option is refused by the kernel.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len) };
    os_result(answer)
}

/// Binds to the interface and starts receiving every protocol: rustix has no link-layer addresses.
#[allow(unsafe_code)]
fn bind(socket: &OwnedFd, index: libc::c_int) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to a whole `sockaddr_ll`, as its family says, and `len` is its size; the call
    // only reads it.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    os_result(answer)
}

fn os_result(answer: libc::c_int) -> Result<(), Errno> {
    if answer == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
