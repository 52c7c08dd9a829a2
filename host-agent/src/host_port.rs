//! The port of a host: an interface whose incoming INA packets the kernel does not answer.

use std::io;

use tributary_link::{FramePort, InterfaceMeter, InterfacePort, Mark, MutedUdpPort};
use tributary_wire::constants::INA_UDP_PORT;

use crate::error::AgentError;

/// An [`InterfacePort`] for an agent. As long as it exists, the host's kernel does not answer INA
/// packets.
#[derive(Debug)]
pub struct HostPort {
    interface: InterfacePort,
    _silence: MutedUdpPort,
}

impl HostPort {
    /// Opens the interface `name`.
    ///
    /// # Errors
    /// [`AgentError::Link`] with the errors of [`InterfacePort::open`]; [`AgentError::UdpPort`] if another program uses
    /// the port of INA packets.
    pub fn open(name: &str) -> Result<Self, AgentError> {
        let interface = InterfacePort::open(name)?;
        let silence = MutedUdpPort::take(INA_UDP_PORT)
            .map_err(|reason| AgentError::UdpPort { port: INA_UDP_PORT, reason })?;
        Ok(Self { interface, _silence: silence })
    }

    /// Sets segmentation offload; see [`InterfacePort::with_segmentation_offload`].
    #[must_use]
    pub fn with_segmentation_offload(self, wanted: bool) -> Self {
        Self { interface: self.interface.with_segmentation_offload(wanted), ..self }
    }

    /// Returns the counters of the frames that this port has sent and received.
    pub fn meter(&self) -> &InterfaceMeter {
        self.interface.meter()
    }
}

impl FramePort for HostPort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.interface.send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.interface.flush()
    }

    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        self.interface.send_all(frames)
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
