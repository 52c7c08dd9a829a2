//! Requests of a worker to a server's task.

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
    /// Drop the parts: there will be no gradient of them. Answered once that is done.
    Drop(oneshot::Sender<()>),
    Exchange(Exchange),
}

/// Something to hand in, and the reply channel for the step that answers it.
pub(super) struct Exchange {
    pub(super) hand_in: HandIn,
    /// True once another server has released this worker.
    pub(super) released: watch::Receiver<bool>,
    pub(super) answer: oneshot::Sender<Result<Step, ClientError>>,
    /// Held until all servers have answered: at most one exchange and the parts of one gradient wait.
    pub(super) _turn: Turn,
}

/// The right to hand something in.
pub(super) type Turn = Arc<OwnedMutexGuard<()>>;

/// Gradient that a worker hands in to a server.
pub(super) enum HandIn {
    /// Nothing: it joins.
    Nothing,
    /// The range's gradient.
    Whole(Arc<[f32]>),
    /// The gradient that consists of the parts.
    Parts,
}
