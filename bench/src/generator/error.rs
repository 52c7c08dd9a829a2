use std::io;
use std::time::Duration;

use thiserror::Error;
use tributary_wire::{Seq, WireError};

/// Why a run says nothing.
#[derive(Debug, Error)]
pub enum GeneratorError {
    /// A socket could not be made or used.
    #[error("cannot {step} on network interface {interface}: {reason}")]
    Socket {
        /// Where.
        interface: String,
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        reason: io::Error,
    },
    /// The switch added up wrongly.
    #[error("the switch's sum of slice {seq} is wrong in {what}: expected {expected:#x}, got {got:#x}")]
    WrongSum {
        /// Which slice.
        seq: Seq,
        /// Which field, or the first of its values that is wrong.
        what: String,
        /// What the children sent, added up.
        expected: u32,
        /// What came.
        got: u32,
    },
    /// A frame of ours came out damaged.
    #[error("the switch sent a malformed frame: {0}")]
    Malformed(WireError),
    /// A contribution could not be written.
    #[error("cannot write a contribution: {0}")]
    Unwritable(WireError),
    /// No sum at all: the switch is not programmed, or does not run.
    #[error("no sum came out of the switch for {0:?}: does it run, with tables for this job?")]
    Silent(Duration),
}
