//! The ports of a switch: links by number, and the way to the controller.

use std::fmt;
use std::io;

use mio::{Registry, Token};
use tokio::sync::mpsc::Sender;
use tributary_link::{FramePort, MAX_FRAME_BYTES};

use crate::error::SwitchError;
use crate::program::DROP_PORT;
use crate::switch::Outputs;

/// Frames of one port that are processed before it is the next one's turn.
pub(super) const FRAMES_A_ROUND: usize = 64;

/// The ports of a switch.
pub(super) struct Ports {
    links: Vec<Link>,
    /// Index of a port's link, by its number.
    by_number: Vec<Option<usize>>,
    cpu_port: u16,
    packet_ins: Sender<Vec<u8>>,
    buffer: Box<[u8]>,
    drops: Drops,
}

struct Link {
    number: u16,
    port: Box<dyn FramePort>,
    /// There may be frames.
    ready: bool,
    /// Frames were sent since the last flush.
    unflushed: bool,
    /// It cannot be used any more.
    failed: bool,
}

/// Frames that went nowhere.
#[derive(Debug, Default)]
struct Drops {
    /// The program has sent them to a port that is not there.
    no_port: u64,
    /// The controller did not read fast enough.
    packet_ins: u64,
    /// They were shorter than a frame can be, or longer.
    bad_length: u64,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u16> = self.links.iter().map(|link| link.number).collect();
        f.debug_struct("Ports").field("numbers", &numbers).field("drops", &self.drops).finish_non_exhaustive()
    }
}

impl Ports {
    /// Registers all ports; tokens are indices.
    pub(super) fn new(
        ports: Vec<(u16, Box<dyn FramePort>)>,
        cpu_port: u16,
        packet_ins: Sender<Vec<u8>>,
        registry: &Registry,
    ) -> Result<Self, SwitchError> {
        let mut by_number = vec![None; DROP_PORT as usize];
        let mut links = Vec::new();
        if usize::from(cpu_port) >= by_number.len() {
            return Err(SwitchError::NoSuchPort(cpu_port));
        }
        for (index, (number, mut port)) in ports.into_iter().enumerate() {
            let place = by_number.get_mut(usize::from(number)).ok_or(SwitchError::NoSuchPort(number))?;
            if number == cpu_port || place.replace(index).is_some() {
                return Err(SwitchError::PortTaken(number));
            }
            port.register(registry, Token(index))
                .map_err(|source| SwitchError::Register { port: number, source })?;
            // Frames may have come before anyone could tell.
            links.push(Link { number, port, ready: true, unflushed: false, failed: false });
        }
        let buffer = vec![0; MAX_FRAME_BYTES].into_boxed_slice();
        Ok(Self { links, by_number, cpu_port, packet_ins, buffer, drops: Drops::default() })
    }

    pub(super) fn cpu_port(&self) -> u16 {
        self.cpu_port
    }

    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    pub(super) fn any_ready(&self) -> bool {
        self.links.iter().any(|link| link.ready)
    }

    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.links[index].ready
    }

    pub(super) fn set_ready(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.ready = !link.failed;
        }
    }

    pub(super) fn set_empty(&mut self, index: usize) {
        self.links[index].ready = false;
    }

    /// The next frame of a port, and the port's number.
    pub(super) fn receive(&mut self, index: usize) -> Option<(u16, &[u8])> {
        let link = &mut self.links[index];
        match link.port.receive(&mut self.buffer) {
            Ok(len) => Some((link.number, self.buffer.get(..len?)?)),
            Err(error) => {
                link.fail(&error);
                None
            }
        }
    }

    /// Sends all frames to where they go.
    pub(super) fn send_all(&mut self, outputs: &Outputs) {
        for (number, frame) in outputs.iter() {
            let link = self.by_number.get(usize::from(number)).copied().flatten();
            match link.and_then(|index| self.links.get_mut(index)) {
                Some(link) => link.send(frame, &mut self.drops),
                None if number == self.cpu_port => {
                    if self.packet_ins.try_send(frame.to_vec()).is_err() {
                        self.drops.packet_ins += 1;
                    }
                }
                None => self.drops.no_port += 1,
            }
        }
    }

    /// Sends off what is queued.
    pub(super) fn flush(&mut self) {
        for link in self.links.iter_mut().filter(|link| link.unflushed) {
            link.unflushed = false;
            if let Err(error) = link.port.flush() {
                link.fail(&error);
            }
        }
    }

    /// Leaves a note of frames that went nowhere.
    pub(super) fn report(&self) {
        tracing::debug!(drops = ?self.drops, "switch has ended");
    }
}

impl Link {
    fn send(&mut self, frame: &[u8], drops: &mut Drops) {
        if self.failed {
            drops.no_port += 1;
            return;
        }
        match self.port.send(frame) {
            Ok(()) => self.unflushed = true,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => drops.bad_length += 1,
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if !self.failed {
            tracing::warn!(port = self.number, %error, "port failed: it is out of use until the switch is started again");
        }
        (self.failed, self.ready, self.unflushed) = (true, false, false);
    }
}
