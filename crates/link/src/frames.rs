//! Frames that are stored one after the other in a single buffer.

/// Frames in the order in which they were written. A reused `Frames` allocates no new memory.
#[derive(Debug, Default)]
pub struct Frames {
    /// The frames one after the other, followed by old bytes.
    bytes: Vec<u8>,
    /// The end of each frame in `bytes`.
    ends: Vec<usize>,
}

impl Frames {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if it has no frames.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the total length of all frames in bytes.
    pub fn byte_len(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Adds a frame. `write` receives a buffer of `room` bytes with arbitrary contents, writes the frame
    /// to its beginning, and returns the frame's length.
    ///
    /// # Errors
    /// The error of `write`; then no frame is added.
    pub fn try_add<E>(
        &mut self,
        room: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let begin = self.byte_len();
        if self.bytes.len() < begin + room {
            self.bytes.resize(begin + room, 0);
        }
        let place = self.bytes.get_mut(begin..begin + room).unwrap_or_default();
        let len = write(place)?.min(room);
        self.ends.push(begin + len);
        Ok(())
    }

    /// Returns the frame with this index; `None` if the index is too large.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let begin =
            index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        self.bytes.get(begin..end)
    }

    /// Returns an iterator over the frames.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let frame = self.bytes.get(begin..*end).unwrap_or_default();
            begin = *end;
            frame
        })
    }

    /// Removes all frames.
    pub fn clear(&mut self) {
        self.ends.clear();
    }
}
