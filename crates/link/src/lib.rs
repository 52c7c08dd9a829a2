//! Links between devices: in-process links and Linux interfaces behind one trait.
//!
//! A [`FramePort`] is one end of a link, for a switch or a host. Frames are whole Ethernet frames from the destination
//! address on, with every VLAN tag that they had on the link, without the frame check sequence. Two kinds of ports
//! exist: [`in_process`] links connect threads of one process and can lose frames on purpose; [`interface`] ports send
//! and receive frames on a Linux network interface. An implementation of the trait may return frames in the kernel's
//! memory, and may delay outgoing frames until [`FramePort::flush`].

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

/// A value of two bytes of a frame, by which a port selects the frames that it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The offset of the two bytes in the frame.
    /// If frames arrive joined, a port examines the first of them only. The others may differ beyond the 46th byte.
    pub at: usize,
    /// The value of the two bytes, big-endian.
    pub value: u16,
}

/// The shortest frame that a port sends, in bytes: an Ethernet header.
pub const MIN_FRAME_BYTES: usize = 14;
/// The longest frame that a port sends or returns, in bytes: an Ethernet header and the longest IPv4
/// packet.
pub const MAX_FRAME_BYTES: usize = MIN_FRAME_BYTES + 65_535;

/// The most frames that a port sends together. A sender with this many frames for a port should not
/// wait for more, because a longer batch would only delay the first frame and its receiver.
pub const BATCH: usize = 32;

/// One end of a link, which belongs to the thread that polls it. No method blocks.
///
/// The owner works in rounds. It calls [`receive`](Self::receive) until the port returns `None`, sends all frames by
/// [`send_all`](Self::send_all), or by [`send`](Self::send) and [`flush`](Self::flush), and waits on the [`mio::Poll`].
pub trait FramePort: Send {
    /// Queues a frame. The frame leaves at the next [`flush`](Self::flush) at the latest. If the link is
    /// full or down, the port drops the frame and counts it, like a real link.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a frame shorter than [`shortest_frame`](Self::shortest_frame) or longer than
    /// [`MAX_FRAME_BYTES`]. The frame was not sent, and the port can still be used. After any other error, the port
    /// cannot be used any more.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends the queued frames. The owner must call it after the last frame of a batch and before it
    /// waits.
    ///
    /// # Errors
    /// Returns an error if the port cannot be used any more.
    fn flush(&mut self) -> io::Result<()>;

    /// Sends all these frames in order, after the queued frames, and [flushes](Self::flush). A port may
    /// send them without a copy.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send). If one of the frames is too short or too long, some frames may have been
    /// sent.
    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        frames.iter().try_for_each(|frame| self.send(frame))?;
        self.flush()
    }

    /// Returns the next frame, in the port's memory, or `None` if no frame has arrived. The frame must
    /// have the same bytes as on the link. A port that removed a VLAN tag would turn an untrusted frame into a trusted
    /// one.
    ///
    /// # Errors
    /// Returns an error if the port cannot be used any more.
    fn receive(&mut self) -> io::Result<Option<&[u8]>>;

    /// Returns the length of the longest frame that the link carried when the port was opened, in bytes.
    /// Longer frames are lost.
    fn longest_frame(&self) -> usize {
        MAX_FRAME_BYTES
    }

    /// Returns the length of the shortest frame that the link carries, in bytes.
    fn shortest_frame(&self) -> usize {
        MIN_FRAME_BYTES
    }

    /// Declares that the port's owner needs only frames with all these marks. The port may drop other
    /// frames as early as possible. The owner must still check received frames, because a port need not drop any, and
    /// may still return frames that arrived before the call.
    ///
    /// # Errors
    /// Returns an error if the port cannot be used any more.
    fn pass_only(&mut self, _marks: &[Mark]) -> io::Result<()> {
        Ok(())
    }

    /// Makes `registry`'s [`mio::Poll`] report `token` as readable when frames have arrived. Reports are
    /// *edges*: a report is guaranteed only for frames that arrive after `receive` has returned `None`. An owner that
    /// stops reading earlier must continue later without a report. A report may also come without a frame.
    ///
    /// # Errors
    /// The operating system's error if the registration fails.
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
