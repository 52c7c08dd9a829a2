//! Frames one behind the other in one piece of memory.

/// Frames in the order in which they were written. Used again and again, it needs no new memory.
#[derive(Debug, Default)]
pub struct Frames {
    /// Frames one after the other, and behind them what was there before.
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Frames {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all of them together.
    pub fn byte_len(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Adds the frame that `write` writes to the beginning of `room` bytes, in which anything may be; it returns the frame's
    /// length.
    ///
    /// # Errors
    /// Those of `write`: then no frame is added.
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

    /// The frames.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let frame = self.bytes.get(begin..*end).unwrap_or_default();
            begin = *end;
            frame
        })
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.ends.clear();
    }
}
