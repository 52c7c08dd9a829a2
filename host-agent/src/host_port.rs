//! The port of a host: an interface, and the kernel kept quiet.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tributary_link::{FramePort, InterfaceMeter, InterfacePort, Mark};
use tributary_wire::constants::INA_UDP_PORT;

use crate::error::AgentError;

/// An [`InterfacePort`] for an agent. While it lives, the host's own UDP port of INA packets is taken by a
/// socket that throws everything away: without one the kernel would answer every packet with an ICMP
/// "port unreachable".
#[derive(Debug)]
pub struct HostPort {
    interface: InterfacePort,
    _silence: Socket,
}

impl HostPort {
    /// Opens the interface `name`.
    ///
    /// # Errors
    /// [`AgentError::Link`] as [`InterfacePort::open`], [`AgentError::UdpPort`].
    pub fn open(name: &str) -> Result<Self, AgentError> {
        let interface = InterfacePort::open(name)?;
        let silence = silence().map_err(|reason| AgentError::UdpPort { port: INA_UDP_PORT, reason })?;
        Ok(Self { interface, _silence: silence })
    }

    /// Counters of what this port has sent and received.
    pub fn meter(&self) -> &InterfaceMeter {
        self.interface.meter()
    }
}

/// A UDP socket on the INA port that accepts nothing.
fn silence() -> io::Result<Socket> {
    // Classic BPF: return 0, which is how many bytes of a packet to keep.
    const KEEP_NOTHING: SockFilter = SockFilter::new(0x06, 0, 0, 0);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.attach_filter(&[KEEP_NOTHING])?;
    // Several agents of this user may share a host.
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, INA_UDP_PORT).into())?;
    Ok(socket)
}

impl FramePort for HostPort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.interface.send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.interface.flush()
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        self.interface.receive()
    }

    fn longest_frame(&self) -> usize {
        self.interface.longest_frame()
    }

    fn pass_only(&mut self, marks: &[Mark]) -> io::Result<()> {
        self.interface.pass_only(marks)
    }

    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.interface.register(registry, token)
    }
}
