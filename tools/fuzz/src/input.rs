//! An input that is consumed from its front.
//!
//! Missing bytes are 0, so that every input has a meaning and no mutation is wasted.

/// The bytes of an input that have not been consumed yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub(crate) fn number(&mut self) -> usize {
        usize::from(u16::from_be_bytes(self.array()))
    }

    /// Consumes up to `len` bytes, and returns them.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const LEN: usize>(&mut self) -> [u8; LEN] {
        let mut array = [0; LEN];
        let taken = self.take(LEN);
        array[..taken.len()].copy_from_slice(taken);
        array
    }
}
