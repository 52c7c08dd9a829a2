//! The outputs of a job.

use tributary_api::ps::server_message::Message;

use crate::policy::Worker;

/// An action for the job's thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    Send(Worker, Message),
    /// Make a reduction among these hosts.
    Open {
        group: u64,
        hosts: Vec<String>,
    },
    Expect {
        group: u64,
        round: u64,
    },
    Close {
        group: u64,
    },
    /// Expel this worker: it has not pushed the gradient that it had announced.
    Expel(Worker),
}

/// Outputs, to be carried out in order.
pub(super) type Outputs = Vec<Output>;
