//! The ports of a switch: links by number, and the queue of frames to the controller.

use std::fmt;
use std::io;
use std::time::Instant;

use mio::{Registry, Token};
use tokio::sync::mpsc::Sender;
use tributary_link::{FramePort, MAX_FRAME_BYTES};

use super::allowance::Allowance;
use crate::error::SwitchError;
use crate::outputs::Outputs;
use crate::program::DROP_PORT;

/// The ports of a switch.
pub(super) struct Ports {
    links: Vec<Link>,
    /// Index of the link of each port, by the port's number.
    by_number: Vec<Option<usize>>,
    cpu_port: u16,
    packet_ins: Sender<Vec<u8>>,
    drops: Drops,
    /// Number of ports that have failed.
    failures: usize,
    /// A buffer for sending: the index of a link, and the index of a frame that leaves by the link.
    leaving: Vec<(usize, usize)>,
}

struct Link {
    number: u16,
    port: Box<dyn FramePort>,
    state: LinkState,
}

#[derive(Debug, Default)]
struct LinkState {
    /// True if the port has failed and cannot be used any more.
    failed: bool,
    /// The number of frames that the port may still send to the controller.
    to_controller: Allowance,
}

/// Counts of dropped frames, by reason.
#[derive(Debug, Default)]
struct Drops {
    /// Frames that the program sent to a port that does not exist.
    no_port: u64,
    /// Frames to the controller that found its queue full, because the controller did not read fast
    /// enough.
    packet_ins: u64,
    /// Frames from a port to the controller that exceeded the port's allowance.
    too_many: u64,
    /// Frames that were shorter or longer than a frame can be.
    bad_length: u64,
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<u16> = self.links.iter().map(|link| link.number).collect();
        f.debug_struct("Ports").field("numbers", &numbers).field("drops", &self.drops).finish_non_exhaustive()
    }
}

impl Ports {
    /// Registers all ports. A port's token is its index.
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
                .map_err(|reason| SwitchError::Register { port: number, reason })?;
            links.push(Link { number, port, state: LinkState::default() });
        }
        let (drops, leaving) = (Drops::default(), Vec::new());
        Ok(Self { links, by_number, cpu_port, packet_ins, drops, failures: 0, leaving })
    }

    pub(super) fn cpu_port(&self) -> u16 {
        self.cpu_port
    }

    /// Returns the number of ports that have failed.
    pub(super) fn failures(&self) -> usize {
        self.failures
    }

    /// Returns all port numbers, each with true if the port has a link that works.
    pub(super) fn states(&self) -> impl Iterator<Item = (u16, bool)> {
        let works =
            |link: Option<usize>| link.and_then(|at| self.links.get(at)).is_some_and(|one| !one.state.failed);
        (0..)
            .zip(&self.by_number)
            .map(move |(number, link)| (number, number == self.cpu_port || works(*link)))
    }

    pub(super) fn count(&self) -> usize {
        self.links.len()
    }

    /// Returns the next frame of a port, and the port's number.
    pub(super) fn receive(&mut self, index: usize) -> Option<(u16, &[u8])> {
        let Link { number, port, state } = self.links.get_mut(index).filter(|link| !link.state.failed)?;
        match port.receive() {
            Ok(frame) => Some((*number, frame?)),
            Err(error) => {
                state.fail(*number, &error);
                self.failures += 1;
                None
            }
        }
    }

    /// Sends each frame to its port.
    pub(super) fn send_all(&mut self, outputs: &Outputs) {
        self.leaving.clear();
        for (at, (ingress, number, frame)) in outputs.with_origins().enumerate() {
            match self.by_number.get(usize::from(number)).copied().flatten() {
                Some(link) => self.leaving.push((link, at)),
                None if number == self.cpu_port => self.send_to_controller(ingress, frame),
                None => self.drops.no_port += 1,
            }
        }
        self.leaving.sort_unstable();
        let mut frames = Vec::with_capacity(self.leaving.len());
        for together in self.leaving.chunk_by(|(one, _), (next, _)| one == next) {
            let link = together.first().and_then(|(link, _)| self.links.get_mut(*link));
            let Some(link) = link else { continue };
            frames.clear();
            frames.extend(together.iter().map(|(_, at)| outputs.frame(*at)));
            let failed = link.state.failed;
            link.send_all(&mut frames, &mut self.drops);
            self.failures += usize::from(link.state.failed && !failed);
        }
    }

    fn send_to_controller(&mut self, ingress: u16, frame: &[u8]) {
        let link = self.by_number.get(usize::from(ingress)).copied().flatten();
        let allowance =
            link.and_then(|index| self.links.get_mut(index)).map(|link| &mut link.state.to_controller);
        // The controller's own frames come in by no link, so no allowance limits them.
        if allowance.is_some_and(|allowance| !allowance.take(Instant::now())) {
            self.drops.too_many += 1;
        } else if self.packet_ins.try_send(frame.to_vec()).is_err() {
            self.drops.packet_ins += 1;
        }
    }

    /// Logs how many frames were dropped.
    pub(super) fn report(&self) {
        tracing::debug!(drops = ?self.drops, "switch has ended");
    }
}

impl Link {
    fn send_all(&mut self, frames: &mut Vec<&[u8]>, drops: &mut Drops) {
        let all = frames.len();
        if self.state.failed {
            drops.no_port += all as u64;
            return;
        }
        let possible = self.port.shortest_frame()..=MAX_FRAME_BYTES;
        frames.retain(|frame| possible.contains(&frame.len()));
        drops.bad_length += (all - frames.len()) as u64;
        if let Err(error) = self.port.send_all(frames) {
            self.state.fail(self.number, &error);
        }
    }
}

impl LinkState {
    fn fail(&mut self, number: u16, error: &io::Error) {
        if !self.failed {
            tracing::warn!(port = number, %error, "port failed: it is out of use until the switch is started again");
        }
        self.failed = true;
    }
}
