//! Captures in pcap and pcapng files, which replace links or record the frames of links.
//!
//! - [`CaptureReader`] and [`CaptureWriter`] read frames with their times from a file, and write them to a file.
//! - [`replay`] creates ports whose incoming frames are read from captures, in the order of their times across all
//!   ports. Their outgoing frames are written to captures.
//! - [`Recorded`] is any port with captures of the frames that it receives and sends.
//!
//! All captures contain Ethernet frames, because a [`FramePort`](tributary_link::FramePort) carries Ethernet frames.

mod error;
mod reader;
mod recorded;
mod replay;
mod writer;

pub use error::{CaptureError, Problem};
pub use reader::{CaptureReader, CapturedFrame};
pub use recorded::Recorded;
pub use replay::{PortFiles, ReplayPort, replay};
pub use writer::{CaptureWriter, Resolution};
