//! A UDP port of a host for which the host's kernel does not answer packets.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::filter::KEEP_NOTHING;
use super::socket;

/// As long as this value lives, the kernel discards packets to a UDP port. Otherwise it would answer
/// them with an ICMP "port unreachable". Several processes of one user may mute the same port.
#[derive(Debug)]
pub struct MutedUdpPort {
    _socket: OwnedFd,
}

impl MutedUdpPort {
    /// Mutes the port on all of the host's addresses.
    ///
    /// # Errors
    /// The system's error, for example because another socket has the port.
    pub fn take(port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.attach_filter(&[KEEP_NOTHING])?;
        socket.set_reuse_port(true)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        let socket = OwnedFd::from(socket);
        // Without this option, the kernel would split frames of many datagrams only to discard the datagrams. Before
        // Linux 5.0, the option does not exist, and such frames do not arrive.
        let _ = socket::take_datagrams_as_one(&socket);
        Ok(Self { _socket: socket })
    }
}
