//! Commands to a job's thread.

use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tributary_api::ps::ServerMessage;

use super::group_fabric::GroupEvent;
use super::job::Gradient;
use crate::policy::Worker;

/// The channel for the server's messages to a session.
pub(super) type Replies = mpsc::Sender<Result<ServerMessage, Status>>;

/// Notified when the job has handled the command. The session reads no further message from its worker
/// before that. Dropped if the session is over.
pub(super) type Taken = oneshot::Sender<()>;

/// A worker that wants to join.
pub(super) struct Newcomer {
    pub(super) worker: Worker,
    pub(super) session: u64,
    /// The first parameter of the range that the worker requests.
    pub(super) first: u64,
    pub(super) initial: Vec<f32>,
    /// The settings that all workers must share, as text; empty if the worker does not check them.
    pub(super) settings: String,
    pub(super) host: Option<String>,
    pub(super) replies: Replies,
}

/// An event of a job. Sessions are numbered, so that the end of an old session does not end a newer
/// session of the same worker.
pub(super) enum Command {
    Join(Box<Newcomer>),
    Push { worker: Worker, session: u64, gradient: Gradient, taken: Taken },
    Urge { worker: Worker, session: u64, taken: Taken },
    FabricFailed { worker: Worker, session: u64, group: u64, reason: String, taken: Taken },
    Leave { worker: Worker, session: u64 },
    Fabric { group: u64, event: GroupEvent },
    Parameters(oneshot::Sender<Vec<f32>>),
    Stop,
}
