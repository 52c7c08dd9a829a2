//! The interface of a host that sends.

use tributary_link::{FramePort, InterfacePort};

use super::GeneratorError;
use super::socket::{BATCH, Frames, SendingSocket};

/// The least number of batches in a window, as agents let slices go: while the switch has one of them, the others are made,
/// or taken in.
const BATCHES: u32 = 4;

/// Collects frames to a batch, and sends them.
#[derive(Debug)]
pub struct Sender {
    frames: Frames,
    /// How many of `frames` are queued.
    queued: usize,
    /// How many leave together.
    batch: usize,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Single(SendingSocket),
    Joined(Box<InterfacePort>),
}

impl Sender {
    /// A sender on this interface of the calling thread's network namespace, for frames of that length, each of which
    /// goes by itself.
    ///
    /// # Errors
    /// [`GeneratorError::Socket`] with the step that failed.
    pub fn open(interface: &str, frame_bytes: usize) -> Result<Self, GeneratorError> {
        Ok(Self::new(frame_bytes, BATCH, Way::Single(SendingSocket::open(interface)?)))
    }

    /// A sender whose neighbouring frames cross the link as one, by a port of an agent: at most a quarter of the `window`.
    ///
    /// # Errors
    /// [`GeneratorError::Port`].
    pub fn open_joining(interface: &str, frame_bytes: usize, window: u32) -> Result<Self, GeneratorError> {
        let port = InterfacePort::open(interface)?.with_segmentation_offload(true);
        let batch = ((window / BATCHES) as usize).clamp(1, BATCH);
        Ok(Self::new(frame_bytes, batch, Way::Joined(Box::new(port))))
    }

    fn new(frame_bytes: usize, batch: usize, way: Way) -> Self {
        Self { frames: Frames::new(frame_bytes), queued: 0, batch, way }
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

    /// Sends what is queued. Frames that the kernel has no room for are lost, as on any network.
    pub(super) fn flush(&mut self) -> Result<(), GeneratorError> {
        let queued = std::mem::take(&mut self.queued);
        match &mut self.way {
            Way::Single(socket) => socket.send(&mut self.frames, queued),
            Way::Joined(port) => {
                let frames: Vec<_> = self.frames.iter().take(queued).collect();
                port.send_all(&frames).map_err(GeneratorError::Send)
            }
        }
    }
}
