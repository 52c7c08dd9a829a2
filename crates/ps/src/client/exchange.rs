//! Requests of a worker's client to the task of one server.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot, watch};

use super::error::ClientError;
use super::options::Step;

/// A request to a server's task.
pub(super) enum Request {
    /// A part of the range's next gradient.
    Part {
        first: usize,
        values: Vec<f32>,
    },
    /// Drops the parts of an unfinished gradient. The task notifies the sender when this is done.
    Drop(oneshot::Sender<()>),
    Exchange(Exchange),
}

/// A message to hand in, and the reply channel for the step that answers it.
pub(super) struct Exchange {
    pub(super) hand_in: HandIn,
    /// True once another server has released this worker.
    pub(super) released: watch::Receiver<bool>,
    pub(super) answer: oneshot::Sender<Result<Step, ClientError>>,
    /// Held until all servers have answered. So at most one exchange and the parts of one gradient are
    /// queued.
    pub(super) _turn: Turn,
}

/// The right to hand in a message.
pub(super) type Turn = Arc<OwnedMutexGuard<()>>;

/// The gradient that a worker hands in to a server.
pub(super) enum HandIn {
    /// No gradient, because the worker joins.
    Nothing,
    /// The gradient of the server's range.
    Whole(Arc<[f32]>),
    /// The gradient that consists of the parts handed in before.
    Parts,
}
