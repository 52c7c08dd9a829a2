use std::io;
use std::time::Duration;

use thiserror::Error;
use tributary_link::LinkError;
use tributary_wire::{Seq, WireError};

/// An error of a run of the load generator.
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
    #[error("cannot send joined frames: {0}")]
    Send(io::Error),
    /// A port that splits joined frames could not receive.
    #[error("cannot receive joined frames: {0}")]
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
    /// The switch forwarded a packet other than the expected one.
    #[error("the switch sent packet {seq} with wrong contents: expected {expected}, got {got}")]
    WrongPacket {
        /// The number of the packet.
        seq: Seq,
        /// The expected frame, in hexadecimal digits.
        expected: String,
        /// The frame that arrived, in hexadecimal digits.
        got: String,
    },
    /// A malformed frame arrived.
    #[error("the switch sent a malformed frame: {0}")]
    Malformed(WireError),
    /// A contribution could not be written.
    #[error("cannot write a contribution: {0}")]
    Unwritable(WireError),
    /// A packet could not be written.
    #[error("a packet of {needed} bytes does not fit into a buffer of {room} bytes")]
    NoRoom {
        /// The length of the packet.
        needed: usize,
        /// The length of the buffer.
        room: usize,
    },
    /// The load has no flow, or the frames of a flow are too short.
    #[error("the load has no flow, or a flow with frames shorter than {0} bytes")]
    NoFlow(usize),
    /// Nothing arrived within this time: the switch is not programmed, or does not run.
    #[error("the switch sent nothing for {0:?}: check that it runs, with a program and tables for this load")]
    Silent(Duration),
}
