//! What a job wants done.

use tributary_api::ps::server_message::Message;

use crate::policy::Worker;

/// What is to be done.
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
    /// This worker has not pushed what it had announced: it has to go.
    Expel(Worker),
}

/// What is to be done, in its order.
pub(super) type Outputs = Vec<Output>;
