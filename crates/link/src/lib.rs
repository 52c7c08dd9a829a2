//! The ways of frames from one device to another: in-process links and Linux
//! interfaces behind one trait.
//!
//! A [`FramePort`] is one end of a link, as a switch or a host sees it. Frames are whole Ethernet frames from the
//! destination address on, with every VLAN tag that they had on the link, without the frame check sequence. Two kinds
//! of port exist: [`in_process`] links, which connect threads of one process and can lose frames on purpose, and
//! [`interface`] ports, which put frames on a Linux network interface. The trait gives implementations freedom: a port
//! may hand out frames from the kernel's memory, and may hold frames back until [`FramePort::flush`].

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
pub use interface::{
    EtherTypePort, InterfaceCondition, InterfacePort, Merging, MutedUdpPort, split_datagrams,
};
pub use meter::{Carried, DirectionMeter, InterfaceMeter, LinkMeter, RepairMeter};

/// A value that two bytes of a frame must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The offset of the two bytes in the frame.
    /// Beyond the 46th byte, frames that came in as one may differ; they are then chosen by the first of them.
    pub at: usize,
    /// The value of the two bytes, big-endian.
    pub value: u16,
}

/// The shortest frame that a port takes, in bytes: an Ethernet header.
pub const MIN_FRAME_BYTES: usize = 14;
/// The longest frame that a port takes or hands out, in bytes: an Ethernet header and the longest IPv4
/// packet.
pub const MAX_FRAME_BYTES: usize = MIN_FRAME_BYTES + 65_535;

/// The most frames that a port sends off together.
/// A sender with this many for a port need not wait for more: a longer batch would only delay the first frame and its
/// receiver.
pub const BATCH: usize = 32;

/// One end of a link, owned by the thread that polls it. Nothing here blocks.
///
/// The owner works in rounds: it calls [`receive`](Self::receive) until that returns `None`, sends everything by
/// [`send_all`](Self::send_all), or by [`send`](Self::send) and [`flush`](Self::flush), and waits on the [`mio::Poll`].
pub trait FramePort: Send {
    /// Queues a frame.
    /// It leaves at the next [`flush`](Self::flush) at the latest. A link that is full or down drops the frame and
    /// counts that, like a real one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame shorter than [`shortest_frame`](Self::shortest_frame) or longer than
    /// [`MAX_FRAME_BYTES`]: it was not sent, and the port can still be used. After any other error the port cannot be
    /// used any more.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends off queued frames; to be called after the last frame of a batch and before waiting.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn flush(&mut self) -> io::Result<()>;

    /// Sends all these frames, in order, behind the queued ones, and [flushes](Self::flush).
    /// A port may send them from where they are, without a copy.
    ///
    /// # Errors
    /// As [`send`](Self::send); if one of the frames is too short or too long, some may have been sent.
    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        frames.iter().try_for_each(|frame| self.send(frame))?;
        self.flush()
    }

    /// Returns the next frame, in the port's memory, or `None` if no frame has arrived.
    /// It is unchanged from the link: a port that removed a VLAN tag would turn an untrusted frame into a trusted one.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn receive(&mut self) -> io::Result<Option<&[u8]>>;

    /// The longest frame that the link carries, in bytes, at the time when the port was opened.
    /// Longer frames are lost.
    fn longest_frame(&self) -> usize {
        MAX_FRAME_BYTES
    }

    /// The shortest frame that the link carries, in bytes.
    fn shortest_frame(&self) -> usize {
        MIN_FRAME_BYTES
    }

    /// Declares that the port's owner needs only frames with all these marks.
    /// The port may drop other frames before they cost anything. The owner must still check received frames: a port may
    /// drop none, and may hold earlier frames.
    ///
    /// # Errors
    /// The port cannot be used any more.
    fn pass_only(&mut self, _marks: &[Mark]) -> io::Result<()> {
        Ok(())
    }

    /// Makes `registry`'s [`mio::Poll`] report `token` as readable when frames have come.
    /// Reports are *edges*: one is certain only for frames that come after `receive` has returned `None`, so an owner
    /// that stops reading earlier must come back without a report. A report may also come without a frame.
    ///
    /// # Errors
    /// The operating system's error from registering.
    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()>;
}

/// Checks that a frame has a length that ports may send.
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
