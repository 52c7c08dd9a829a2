//! The interface of the host that receives.

use std::time::Duration;

use mio::{Events, Poll, Token};
use tributary_link::{FramePort, InterfacePort};

use super::GeneratorError;
use super::ring::Ring;

/// Receives what comes out of the switch.
#[derive(Debug)]
pub struct Receiver(Way);

#[derive(Debug)]
enum Way {
    Single(Ring),
    Joined { port: Box<InterfacePort>, poll: Poll, events: Events },
}

impl Receiver {
    /// A receiver on this interface of the calling thread's network namespace, for frames of about that length, each of
    /// which comes by itself, and so many of which are in flight.
    ///
    /// # Errors
    /// [`GeneratorError::Socket`] with the step that failed.
    pub fn open(interface: &str, sizes: (usize, u32)) -> Result<Self, GeneratorError> {
        Ok(Self(Way::Single(Ring::open(interface, sizes)?)))
    }

    /// A receiver of frames that may cross the link as one, by a port of an agent.
    ///
    /// # Errors
    /// [`GeneratorError::Port`], [`GeneratorError::Receive`].
    pub fn open_joined(interface: &str) -> Result<Self, GeneratorError> {
        let mut port = Box::new(InterfacePort::open(interface)?);
        let poll = Poll::new().map_err(GeneratorError::Receive)?;
        port.register(poll.registry(), Token(0)).map_err(GeneratorError::Receive)?;
        Ok(Self(Way::Joined { port, poll, events: Events::with_capacity(1) }))
    }

    /// The next frame, if it is there.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, GeneratorError> {
        match &mut self.0 {
            Way::Single(ring) => Ok(ring.next()),
            Way::Joined { port, .. } => port.receive().map_err(GeneratorError::Receive),
        }
    }

    /// Waits for a frame for so long at most; only to be called after there was [none](Self::next).
    pub(super) fn wait(&mut self, patience: Duration) -> Result<(), GeneratorError> {
        match &mut self.0 {
            Way::Single(ring) => ring.wait(patience),
            Way::Joined { poll, events, .. } => match poll.poll(events, Some(patience)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    Err(GeneratorError::Receive(error))
                }
                _ => Ok(()),
            },
        }
    }
}
