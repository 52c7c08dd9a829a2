//! How frames get from one device to another: in-process links and Linux interfaces behind one trait.
//!
//! A [`FramePort`] is one end of a link, as a switch or a host sees it. Frames are whole Ethernet frames
//! from the destination address on, with every VLAN tag that they had on the link, without the frame check
//! sequence. Two kinds of port exist: [`in_process`] links, which connect threads of one process and can lose
//! frames on purpose, and [`interface`] ports, which put frames on a Linux network interface. The trait leaves
//! them room: a port may hand out frames where the kernel has put them, and may hold frames back until
//! [`FramePort::flush`].

use std::io;

mod doorbell;
mod error;
mod frames;
pub mod in_process;
pub mod interface;
mod meter;

pub use error::LinkError;
pub use frames::Frames;
pub use in_process::{InProcessPort, LinkConfig, link};
pub use interface::{EtherTypePort, InterfaceCondition, InterfacePort, MutedUdpPort};
pub use meter::{Carried, DirectionMeter, InterfaceMeter, LinkMeter};

/// Two bytes that a frame has in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where they are: bytes from the frame's beginning on. Behind the 46th byte frames that came in as one may differ; by such
    /// a mark they are chosen as the first of them is.
    pub at: usize,
    /// What they say, big-endian.
    pub value: u16,
}

/// The shortest frame that a port takes, in bytes: an Ethernet header.
pub const MIN_FRAME_BYTES: usize = 14;
/// The longest frame that a port takes or hands out, in bytes: an Ethernet header and the longest IPv4
/// packet.
pub const MAX_FRAME_BYTES: usize = MIN_FRAME_BYTES + 65_535;

/// Frames that a port sends off together at the most. Whoever has as many for it need not wait for more: a longer batch would only
/// make the first frame wait, and whoever receives it.
pub const BATCH: usize = 32;

/// One end of a link, owned by the thread that polls it. Nothing here blocks.
///
/// The owner works in rounds: [`receive`](Self::receive) until it says `None`, [`send_all`](Self::send_all) that
/// there is to send, or [`send`](Self::send) it one by one and [`flush`](Self::flush), wait on the [`mio::Poll`].
pub trait FramePort: Send {
    /// Queues a frame. It is on its way after the next [`flush`](Self::flush) at the latest. A link that
    /// is full or down drops it and counts that, like a real one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame shorter than [`MIN_FRAME_BYTES`] or longer than
    /// [`MAX_FRAME_BYTES`]: it was not sent, and the port is as good as before. Any other error means that
    /// the port cannot be used any more.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends off what is queued: to be called after the last frame of a batch and before waiting.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn flush(&mut self) -> io::Result<()>;

    /// Sends all these frames, in this order, behind those that are queued, and [flushes](Self::flush). A port may do that
    /// from where they are, without a copy of its own.
    ///
    /// # Errors
    /// As [`send`](Self::send): if one of them is too short or too long, some may have been sent.
    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        frames.iter().try_for_each(|frame| self.send(frame))?;
        self.flush()
    }

    /// The next frame, where the port has it, or `None` when none is there now. It is as it was on the link: a
    /// port that took a VLAN tag off would make a frame that was not to be believed into one that is.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn receive(&mut self) -> io::Result<Option<&[u8]>>;

    /// The longest frame that the link carries, in bytes, as it was when the port was opened. Longer ones that are sent are lost.
    fn longest_frame(&self) -> usize {
        MAX_FRAME_BYTES
    }

    /// From now on only frames that have all these marks are of use to the owner: the port may leave out others, before they
    /// cost anything. What it hands out is still to be checked: it may leave out none, and has frames from before.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn pass_only(&mut self, _marks: &[Mark]) -> io::Result<()> {
        Ok(())
    }

    /// Makes `registry`'s [`mio::Poll`] report `token` as readable when frames have come. Reports are
    /// *edges*: one is certain only for frames that come after `receive` has returned `None`, so whoever
    /// stops reading earlier must come back without being told. One report may come for nothing.
    ///
    /// # Errors
    /// The operating system's, from registering.
    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()>;
}

/// Refuses what no port may send.
fn check_length(frame: &[u8]) -> io::Result<()> {
    if (MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&frame.len()) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "a frame of {} bytes cannot be sent: {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES} are possible",
            frame.len()
        ),
    ))
}
