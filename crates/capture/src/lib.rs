//! Captures, as pcap and pcapng files have them, in place of links and beside them.
//!
//! - [`CaptureReader`] and [`CaptureWriter`]: frames with their times, from a file and into one;
//! - [`replay`]: ports whose frames come from captures, in the order of their times across all ports, and whose outgoing
//!   frames go into captures;
//! - [`Recorded`]: any port, with captures of what it receives and sends.
//!
//! Only Ethernet is read and written: it is what a [`FramePort`](tributary_link::FramePort) has.

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
