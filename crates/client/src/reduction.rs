//! The future of a started all-reduce.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::ClientError;
use crate::operation::Reduced;
use crate::request_stream::Answer;

/// The future of the outcome of an all-reduce that [`Job::start`](crate::Job::start) has started.
///
/// Dropping it does not cancel the operation, because the other members need this member's contribution. The operation
/// continues, and its segment can be used again when the operation has ended.
#[derive(Debug)]
#[must_use = "what comes of it may be an error"]
pub struct Reduction(pub(crate) oneshot::Receiver<Answer>);

impl Reduction {
    /// Blocks this thread until the operation has ended. In async code, await the future instead.
    ///
    /// # Errors
    /// The errors of [`Job::all_reduce`](crate::Job::all_reduce).
    pub fn wait(self) -> Result<Reduced, ClientError> {
        self.0.blocking_recv().unwrap_or(Err(ClientError::Interrupted))
    }
}

impl Future for Reduction {
    type Output = Result<Reduced, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(ClientError::Interrupted)))
    }
}
