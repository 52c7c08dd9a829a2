//! A UDP port of a host on which its kernel keeps quiet.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::filter::KEEP_NOTHING;
use super::socket;

/// While it lives, the kernel throws away what comes to a UDP port, which it would else answer with an ICMP
/// "port unreachable". Several of one user may have the same port.
#[derive(Debug)]
pub struct MutedUdpPort {
    _socket: OwnedFd,
}

impl MutedUdpPort {
    /// Mutes the port of all of the host's addresses.
    ///
    /// # Errors
    /// The system's: another socket has the port.
    pub fn take(port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.attach_filter(&[KEEP_NOTHING])?;
        socket.set_reuse_port(true)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        let socket = OwnedFd::from(socket);
        // Without it the kernel would take apart what has come as one frame, only to throw all of it away. Before Linux 5.0
        // nothing comes like that.
        let _ = socket::take_datagrams_as_one(&socket);
        Ok(Self { _socket: socket })
    }
}
