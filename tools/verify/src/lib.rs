//! An exhaustive check of the protocol under all faults of a network.
//!
//! The [`Worker`](tributary_protocol::Worker) and the [`Server`](tributary_protocol::Server) are the
//! product's own code. Switches follow the table of the specification ([`slot`]), which the switch's tests
//! compare with the P4 program. The README describes the abstractions, and why they do not hide faults.

mod check;
mod content;
mod event;
mod machines;
mod network;
mod plan;
mod recovery;
mod report;
mod setup;
pub mod slot;
mod story;
mod violation;
mod world;

pub use check::{CheckOutcome, Progress, check};
pub use plan::{everything, planted, small};
pub use report::{Row, table};
pub use setup::{Change, Setup};
pub use slot::Bug;
use thiserror::Error as ThisError;
use tributary_protocol::{ConfigError, StartError};
pub use violation::Violation;

/// An error of a check.
#[derive(Debug, Clone, PartialEq, ThisError)]
pub enum Error {
    /// The state machines refuse the configuration.
    #[error("this cannot be checked: {0}")]
    Config(ConfigError),
    /// A worker refuses its operations.
    #[error("this cannot be checked: {0}")]
    Start(StartError),
    /// The setup is not valid.
    #[error("this cannot be checked: it needs workers, a window that is a power of two, and an operation")]
    Setup,
    /// The number of different items is larger than the range of their ids.
    #[error("this is too large to be checked: more than {0} different packets")]
    TooLarge(usize),
}
