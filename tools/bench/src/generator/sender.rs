//! The interface of a host that sends.

use tributary_link::{FramePort, InterfacePort};

use super::GeneratorError;
use super::socket::{BATCH, Frames, SendingSocket};

/// The least number of batches in a window, as in the agents.
///
/// While the switch handles one batch, the generator makes or receives the others.
const BATCHES: u32 = 4;

/// The way in which frames leave a host that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Each frame alone, through a packet socket of the generator.
    Single,
    /// Neighbouring frames cross the link as one joined frame, through an agent's port.
    /// At most a quarter of the window is joined.
    Joined,
    /// Each frame alone, past the interface's queue. This costs the generator less time.
    PastQueue,
}

/// Collects frames into a batch, and sends the batch.
#[derive(Debug)]
pub struct Sender {
    frames: Frames,
    /// The number of queued frames in `frames`.
    queued: usize,
    /// The number of frames that leave together.
    batch: usize,
    path: SendPath,
}

/// The socket or the port through which frames leave.
#[derive(Debug)]
enum SendPath {
    Socket(SendingSocket),
    Port(Box<InterfacePort>),
}

impl Sender {
    /// Opens a sender on this interface of the calling thread's network namespace.
    ///
    /// `frame_bytes` is the length of a frame, and `window` is the number of frames in flight.
    ///
    /// # Errors
    /// [`GeneratorError::Socket`] with the step that failed, or [`GeneratorError::Port`].
    pub fn open(
        interface: &str,
        sending: Sending,
        (frame_bytes, window): (usize, u32),
    ) -> Result<Self, GeneratorError> {
        let (path, batch) = match sending {
            Sending::Single => (SendPath::Socket(SendingSocket::open(interface)?), BATCH),
            Sending::Joined => {
                let port = InterfacePort::open(interface)?.with_segmentation_offload(true);
                (SendPath::Port(Box::new(port)), ((window / BATCHES) as usize).clamp(1, BATCH))
            }
            Sending::PastQueue => {
                (SendPath::Port(Box::new(InterfacePort::open(interface)?.with_queue_bypass(true)?)), BATCH)
            }
        };
        Ok(Self { frames: Frames::new(frame_bytes), queued: 0, batch, path })
    }

    /// Queues the frame that `write` makes; sends the queue when it is full.
    pub(super) fn queue(
        &mut self,
        write: impl FnOnce(&mut [u8]) -> Result<usize, GeneratorError>,
    ) -> Result<(), GeneratorError> {
        if self.queued == self.batch {
            self.flush()?;
        }
        write(self.frames.of_mut(self.queued))?;
        self.queued += 1;
        Ok(())
    }

    /// Sends the queue. Frames for which the kernel has no room are lost, as on any network.
    pub(super) fn flush(&mut self) -> Result<(), GeneratorError> {
        let queued = std::mem::take(&mut self.queued);
        match &mut self.path {
            SendPath::Socket(socket) => socket.send(&mut self.frames, queued),
            SendPath::Port(port) => {
                let frames: Vec<_> = self.frames.iter().take(queued).collect();
                port.send_all(&frames).map_err(GeneratorError::Send)
            }
        }
    }
}
