use std::net::SocketAddr;
use std::{fmt, io};

use thiserror::Error;
use tributary_p4runtime::SessionError;
use tributary_p4runtime::entry::EntryError;

use crate::journal::JournalError;
use crate::pipeline::PipelineError;

/// Reasons why the controller does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The compiled P4 program cannot be used.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// An address was given for a switch that the topology does not have.
    #[error("there is an address for a switch {switch:?}, but topology {topology:?} has none of that name")]
    UnknownSwitch {
        /// The name that was given.
        switch: String,
        /// The topology's name.
        topology: String,
    },
    /// The topology has a programmable switch without an address in the configuration.
    #[error(
        "programmable switch {switch:?} has no P4Runtime address: give it one, or say programmable = false"
    )]
    NoAddress {
        /// The switch.
        switch: String,
    },
    /// A switch's address is not valid.
    #[error(transparent)]
    Address(#[from] SessionError),
    /// The journal, which holds the jobs of an earlier controller, cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A host of the topology has an operator's name.
    #[error("host {0:?} has an operator's name: rename the host, or let other names be operators'")]
    OperatorIsHost(String),
    /// The API's address cannot be bound; another controller may be running.
    #[error("cannot listen for agents on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        reason: io::Error,
    },
}

/// Reasons why a switch is not in its desired state.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SwitchError {
    /// The connection failed, or the switch refused a request as a whole.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another controller is the primary controller of the switch. Stop one of the two.
    #[error("switch {switch} has another primary controller: {state}")]
    NotPrimary {
        /// The switch.
        switch: String,
        /// The primary controller, as the switch reports it.
        state: String,
    },
    /// A change does not fit the P4 program of the switch. Either Tributary has a defect, or the program is
    /// not Tributary's.
    #[error("switch {switch}: cannot {change}: {reason}")]
    Entry {
        /// The switch.
        switch: String,
        /// The change, with its table and key.
        change: String,
        /// The mismatch between the change and the P4 program.
        reason: Box<EntryError>,
    },
    /// The switch refused some changes; the controller did not try the later changes.
    #[error("switch {switch} refused to {}", Listed(refusals))]
    Refused {
        /// The switch.
        switch: String,
        /// Each refused change: its table, its key and the switch's error message.
        refusals: Vec<RefusedChange>,
    },
    /// The session with the switch is lost. The controller writes the switch's state when the session is
    /// back.
    #[error("switch {switch}: unreachable for {seconds} s: {reason}")]
    Unreachable {
        /// The switch.
        switch: String,
        /// The number of seconds since the session was lost.
        seconds: u64,
        /// The error of the last attempt to connect.
        reason: String,
    },
    /// The switch is connected, but has not carried out an order in time.
    #[error("switch {switch}: has not carried out an order within {seconds} s")]
    Slow {
        /// The switch.
        switch: String,
        /// The time that the controller waited.
        seconds: f64,
    },
    /// Too many orders wait for the switch, so that it could not carry out another one in time.
    #[error("switch {switch}: too many orders wait for it: try again later")]
    Busy {
        /// The switch.
        switch: String,
    },
    /// The controller has stopped.
    #[error("switch {switch}: the controller has stopped")]
    Stopped {
        /// The switch.
        switch: String,
    },
}

/// A change that a switch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    /// The change, with its table and key.
    pub change: String,
    /// The gRPC code and the switch's error message.
    pub reason: String,
}

/// Displays only the first few refusals, to keep the message readable.
struct Listed<'a>(&'a [RefusedChange]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let one = |refusal: &RefusedChange| format!("{} ({})", refusal.change, refusal.reason);
        let shown: Vec<_> = self.0.iter().take(SHOWN).map(one).collect();
        f.write_str(&shown.join("; "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
