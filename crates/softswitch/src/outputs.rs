//! The frames that leave a switch.

use std::convert::Infallible;

use tributary_link::Frames;

/// Frames that leave a switch, each with its port. A reused collection allocates no new memory.
#[derive(Debug, Default)]
pub struct Outputs {
    frames: Frames,
    /// The port of each frame.
    ports: Vec<u16>,
    /// For each frame, the port that received the packet from which the frame was made.
    origins: Vec<u16>,
}

impl Outputs {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all frames.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.ports.clear();
        self.origins.clear();
    }

    /// Returns the ports and frames, in the order in which the frames left.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.ports.iter().copied().zip(self.frames.iter())
    }

    /// Returns for each frame the port at which its packet came in, the port at which it left, and
    /// the frame.
    pub(crate) fn with_origins(&self) -> impl Iterator<Item = (u16, u16, &[u8])> {
        self.origins.iter().zip(self.iter()).map(|(origin, (port, frame))| (*origin, port, frame))
    }

    /// Returns the frame with the index `at`, in the order in which the frames left.
    pub(crate) fn frame(&self, at: usize) -> &[u8] {
        self.frames.get(at).unwrap_or_default()
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if no frames are present.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the total length of all frames in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.frames.byte_len()
    }

    /// Adds the frame that `write` writes to the beginning of a buffer of `room` bytes.
    ///
    /// `write` returns the frame's length.
    pub(crate) fn add(
        &mut self,
        port: u16,
        origin: u16,
        room: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let Ok(()) = self.frames.try_add(room, |place| Ok::<_, Infallible>(write(place)));
        self.ports.push(port);
        self.origins.push(origin);
    }
}
