use std::io;
use std::time::Duration;

use thiserror::Error;
use tributary_link::LinkError;
use tributary_wire::{Seq, WireError};

/// An error of a run.
#[derive(Debug, Error)]
pub enum GeneratorError {
    /// A socket could not be made or used.
    #[error("cannot {step} on network interface {interface}: {reason}")]
    Socket {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        reason: io::Error,
    },
    /// A port that joins frames could not be opened.
    #[error(transparent)]
    Port(#[from] LinkError),
    /// A port that joins frames could not send.
    #[error("cannot send frames that are joined: {0}")]
    Send(io::Error),
    /// A port that takes joined frames apart could not receive.
    #[error("cannot receive frames that were joined: {0}")]
    Receive(io::Error),
    /// The switch computed a wrong sum.
    #[error("the switch's sum of slice {seq} is wrong in {what}: expected {expected:#x}, got {got:#x}")]
    WrongSum {
        /// The number of the slice.
        seq: Seq,
        /// The name of the field, or the first value that is wrong.
        what: String,
        /// The sum of the children's contributions.
        expected: u32,
        /// The sum that arrived.
        got: u32,
    },
    /// The switch forwarded something else than it had to.
    #[error("packet {seq} came out wrong: expected {expected}, got {got}")]
    WrongPacket {
        /// The number of the packet.
        seq: Seq,
        /// The frame that had to come out, in hexadecimal digits.
        expected: String,
        /// The frame that came out.
        got: String,
    },
    /// A frame came out damaged.
    #[error("the switch sent a malformed frame: {0}")]
    Malformed(WireError),
    /// A contribution could not be written.
    #[error("cannot write a contribution: {0}")]
    Unwritable(WireError),
    /// A packet could not be written.
    #[error("a packet of {needed} bytes does not fit into a buffer of {room}")]
    NoRoom {
        /// Its length.
        needed: usize,
        /// The length of the buffer.
        room: usize,
    },
    /// There is nothing to send.
    #[error("there is no flow, or one whose frames are shorter than {0} bytes")]
    NoFlow(usize),
    /// Nothing at all within this time: the switch is not programmed, or does not run.
    #[error(
        "nothing came out of the switch for {0:?}: does it run, with a program and tables for this load?"
    )]
    Silent(Duration),
}
