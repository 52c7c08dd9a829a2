//! A port for the frames of one EtherType, which are so few that plain system calls are fast enough.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::socket;
use crate::error::LinkError;
use crate::{FramePort, MAX_FRAME_BYTES, check_length};

/// A port that receives only the frames of one EtherType from a Linux interface.
/// Needs the capability `CAP_NET_RAW`.
#[derive(Debug)]
pub struct EtherTypePort {
    name: String,
    socket: OwnedFd,
    address: [u8; 6],
    /// The last received frame.
    frame: Box<[u8]>,
}

impl EtherTypePort {
    /// Opens the interface `name` of the calling thread's network namespace. Makes the interface accept
    /// frames to the multicast address `group`. The port does not receive the frames that this host sends through the
    /// interface.
    ///
    /// # Errors
    /// [`LinkError::NotPermitted`], [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step that failed.
    pub fn open(name: &str, ether_type: u16, group: [u8; 6]) -> Result<Self, LinkError> {
        let (socket, address) = socket::open_ether_type(name, ether_type, group)?;
        Ok(Self { name: name.into(), socket, address, frame: vec![0; MAX_FRAME_BYTES].into() })
    }

    /// Returns the interface's own Ethernet address.
    pub fn address(&self) -> [u8; 6] {
        self.address
    }

    fn failed(&self, step: &str, errno: Errno) -> io::Error {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("cannot {step} on network interface {}: {error}", self.name))
    }
}

impl FramePort for EtherTypePort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        check_length(frame)?;
        let mut is_down = false;
        loop {
            match send(&self.socket, frame, SendFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                // The interface is down, or it was down earlier. The socket reports an earlier downtime once, instead
                // of sending, so the port tries again.
                Err(Errno::NETDOWN) if !is_down => is_down = true,
                // The frame is lost, as on any link: the queue is full, the interface is down, or the frame is longer
                // than its MTU.
                Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::MSGSIZE) => return Ok(()),
                Err(errno) => return Err(self.failed("send", errno)),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            match recv(&self.socket, &mut self.frame[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((kept, len)) if len <= MAX_FRAME_BYTES => return Ok(self.frame.get(..kept)),
                // The frame is too long for the buffer, a signal has arrived, or the interface went down, which the
                // socket reports once.
                Ok(_) | Err(Errno::INTR | Errno::NETDOWN) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(self.failed("receive", errno)),
            }
        }
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.socket.as_raw_fd()), token, Interest::READABLE)
    }
}
