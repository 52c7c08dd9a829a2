//! What a load has to say of itself.

use std::ops::Range;

use tributary_wire::Seq;

use super::GeneratorError;

/// How many hosts send.
pub const SENDERS: usize = 2;

/// What goes through a switch: numbered items, each one or more frames in and one frame out.
pub trait Load {
    /// Items in flight at once, a power of two.
    fn window(&self) -> u32;

    /// Which hosts send a frame of this item, of [`SENDERS`].
    fn senders(&self, seq: Seq) -> Range<usize>;

    /// Writes a host's frame of an item and returns its length; `again`: it was lost before.
    ///
    /// # Errors
    /// [`GeneratorError::Unwritable`]: there is no room for it.
    fn write(
        &mut self,
        sender: usize,
        seq: Seq,
        again: bool,
        frame: &mut [u8],
    ) -> Result<usize, GeneratorError>;

    /// Says what a frame is that came out of the switch, and compares it with what it has to be.
    ///
    /// # Errors
    /// The frame is wrong.
    fn check(&self, frame: &[u8]) -> Result<Arrived, GeneratorError>;

    /// An item's place in the window.
    fn place(&self, seq: Seq) -> usize {
        (seq.minus(Seq::FIRST.0).0 & (self.window() - 1)) as usize
    }
}

/// A frame that came out of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// All of this item, as it has to be.
    Whole(Seq),
    /// A foreign frame, or an answer that is not an item.
    Other,
}
