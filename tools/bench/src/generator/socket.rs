//! Packet sockets, and a socket that sends many frames with one system call.
//!
//! The generator does not use the sockets of `link`, because the yardstick must not change with the measured
//! code.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::GeneratorError;

/// The most frames that one system call moves.
pub(super) const BATCH: usize = 64;
/// The protocol number of a socket that only sends.
const NOTHING: u16 = 0;

/// A packet socket that sends single frames.
#[derive(Debug)]
pub(super) struct SendingSocket {
    interface: String,
    socket: OwnedFd,
}

impl SendingSocket {
    /// Opens a socket on this interface of the calling thread's network namespace.
    pub(super) fn open(interface: &str) -> Result<Self, GeneratorError> {
        Ok(Self { interface: interface.to_owned(), socket: open(interface, NOTHING)? })
    }

    /// Sends the first `count` frames. Frames for which the kernel has no room are lost, as on any network.
    pub(super) fn send(&self, frames: &mut Frames, count: usize) -> Result<(), GeneratorError> {
        let mut sent = 0;
        while sent < count {
            sent += match send_all(&self.socket, frames, sent..count) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(Errno::AGAIN | Errno::NOBUFS) => 1,
                Err(errno) => return Err(failed(&self.interface, "send frames")(errno)),
            };
        }
        Ok(())
    }
}

/// Memory for a batch of frames, one after the other.
#[derive(Debug)]
pub(super) struct Frames {
    memory: Box<[u8]>,
    /// Length of each frame.
    bytes: usize,
}

impl Frames {
    pub(super) fn new(bytes: usize) -> Self {
        Self { memory: vec![0; bytes * BATCH].into_boxed_slice(), bytes }
    }

    pub(super) fn of_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.memory[at * self.bytes..][..self.bytes]
    }

    /// Returns the frames, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.memory.chunks_exact(self.bytes)
    }

    /// Returns a vector for each of these frames, followed by empty vectors.
    fn vectors(&mut self, places: Range<usize>) -> [libc::iovec; BATCH] {
        let mut frames = self.memory.chunks_exact_mut(self.bytes).take(places.end).skip(places.start);
        std::array::from_fn(|_| {
            let frame = frames.next().unwrap_or_default();
            libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() }
        })
    }
}

pub(super) fn failed(interface: &str, step: &'static str) -> impl Fn(Errno) -> GeneratorError + Copy {
    move |errno| GeneratorError::Socket { interface: interface.to_owned(), step, reason: errno.into() }
}

/// Opens a packet socket on this interface, for frames of this protocol.
pub(super) fn open(interface: &str, protocol: u16) -> Result<OwnedFd, GeneratorError> {
    let failed = |step| failed(interface, step);
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(failed("open a packet socket"))?;
    let index = name_to_index(&socket, interface).map_err(failed("find the index"))?;
    let index = libc::c_int::try_from(index).map_err(|_| failed("find the index")(Errno::OVERFLOW))?;
    bind(&socket, index, protocol).map_err(failed("bind a packet socket"))?;
    Ok(socket)
}

/// Binds the socket to an interface, because rustix has no link-layer addresses.
#[allow(unsafe_code)]
fn bind(socket: &OwnedFd, index: libc::c_int, protocol: u16) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to a whole `sockaddr_ll`, as its family says, and `len` is its size. The call
    // only reads it.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if answer == 0 { Ok(()) } else { Err(last_error()) }
}

/// Sends frames until the kernel refuses one, and returns the number of sent frames.
///
/// rustix has no call that sends many frames.
#[allow(unsafe_code)]
fn send_all(socket: &OwnedFd, frames: &mut Frames, places: Range<usize>) -> Result<usize, Errno> {
    let count = places.len().min(BATCH);
    let mut vectors = frames.vectors(places);
    let mut messages = headers(&mut vectors);
    // SAFETY: each of the first `count` messages points to one vector, and each vector to a whole frame. All
    // of them outlive the call, which reads the frames and writes only the messages' lengths.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, 0) };
    usize::try_from(sent).map_err(|_| last_error())
}

/// Makes a message for each vector.
///
/// Messages have no address, because the socket is bound to its interface.
fn headers(vectors: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    let mut vectors = vectors.iter_mut();
    std::array::from_fn(|_| libc::mmsghdr {
        msg_hdr: libc::msghdr {
            msg_name: std::ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: vectors.next().map_or(std::ptr::null_mut(), |vector| &raw mut *vector),
            msg_iovlen: 1,
            msg_control: std::ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        },
        msg_len: 0,
    })
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
