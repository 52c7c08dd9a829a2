//! The interface of the host that receives.

use std::time::Duration;

use mio::{Events, Poll, Token};
use tributary_link::{FramePort, InterfacePort};

use super::GeneratorError;
use super::ring::Ring;

/// Receives the frames that come out of the switch.
#[derive(Debug)]
pub struct Receiver(ReceivePath);

/// The socket or the port through which frames arrive.
#[derive(Debug)]
enum ReceivePath {
    Single(Ring),
    Joined { port: Box<InterfacePort>, poll: Poll, events: Events },
}

impl Receiver {
    /// Opens a receiver of single frames on this interface of the calling thread's network namespace.
    ///
    /// `sizes` is the approximate length of a frame in bytes, and the number of frames in flight.
    ///
    /// # Errors
    /// [`GeneratorError::Socket`] with the step that failed.
    pub fn open(interface: &str, sizes: (usize, u32)) -> Result<Self, GeneratorError> {
        Ok(Self(ReceivePath::Single(Ring::open(interface, sizes)?)))
    }

    /// Opens a receiver of frames that may cross the link as one joined frame, through an agent's port.
    ///
    /// # Errors
    /// [`GeneratorError::Port`] or [`GeneratorError::Receive`].
    pub fn open_joined(interface: &str) -> Result<Self, GeneratorError> {
        let mut port = Box::new(InterfacePort::open(interface)?);
        let poll = Poll::new().map_err(GeneratorError::Receive)?;
        port.register(poll.registry(), Token(0)).map_err(GeneratorError::Receive)?;
        Ok(Self(ReceivePath::Joined { port, poll, events: Events::with_capacity(1) }))
    }

    /// Returns the next frame, or `None` if no frame has arrived.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, GeneratorError> {
        match &mut self.0 {
            ReceivePath::Single(ring) => Ok(ring.next()),
            ReceivePath::Joined { port, .. } => port.receive().map_err(GeneratorError::Receive),
        }
    }

    /// Waits up to `patience` for a frame. Call it only after [`next`](Self::next) has returned `None`.
    pub(super) fn wait(&mut self, patience: Duration) -> Result<(), GeneratorError> {
        match &mut self.0 {
            ReceivePath::Single(ring) => ring.wait(patience),
            ReceivePath::Joined { poll, events, .. } => match poll.poll(events, Some(patience)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    Err(GeneratorError::Receive(error))
                }
                _ => Ok(()),
            },
        }
    }
}
