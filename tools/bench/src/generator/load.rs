//! The interface of a load.

use std::ops::Range;

use tributary_wire::Seq;

use super::GeneratorError;

/// The number of hosts that send.
pub const SENDERS: usize = 2;

/// Traffic through a switch, as numbered items: one or more frames in, and one frame out.
pub trait Load {
    /// Returns the number of items in flight at once, a power of two.
    fn window(&self) -> u32;

    /// Returns the hosts that send a frame of this item, out of [`SENDERS`].
    fn senders(&self, seq: Seq) -> Range<usize>;

    /// Writes a host's frame of an item and returns its length. `again` is true for a retransmission.
    ///
    /// # Errors
    /// [`GeneratorError::Unwritable`] if the frame does not fit into the buffer.
    fn write(
        &mut self,
        sender: usize,
        seq: Seq,
        again: bool,
        frame: &mut [u8],
    ) -> Result<usize, GeneratorError>;

    /// Identifies a frame that came out of the switch, and compares it with the expected frame.
    ///
    /// # Errors
    /// The frame is wrong.
    fn check(&self, frame: &[u8]) -> Result<Arrived, GeneratorError>;

    /// Returns the item's place in the window.
    fn place(&self, seq: Seq) -> usize {
        (seq.minus(Seq::FIRST.0).0 & (self.window() - 1)) as usize
    }
}

/// A frame that came out of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// The complete and correct output frame of the item with this number.
    Whole(Seq),
    /// A foreign frame, or a reply that is not an item.
    Other,
}
