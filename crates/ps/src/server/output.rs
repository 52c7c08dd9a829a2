//! The actions that a job returns to its thread.

use tributary_api::ps::server_message::Message;

use crate::policy::Worker;

/// An action for the job's thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    Send(Worker, Message),
    /// Create a reduction among these hosts.
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
    /// End the session of this worker, because it has not pushed the gradient that it announced.
    Expel(Worker),
}

/// Actions in the order in which the thread performs them.
pub(super) type Outputs = Vec<Output>;
