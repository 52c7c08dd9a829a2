//! A worker's connection to one server.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::agreement::Agreement;
use super::error::ClientError;
use super::exchange::{Exchange, HandIn, Request, Turn};
use super::options::{ClientOptions, Step};
use super::server_task::ServerTask;

/// A server's range of the parameters, and the task that holds the sessions with this server. Dropping
/// the handle ends the session.
pub(super) struct ServerHandle {
    range: Range<usize>,
    requests: mpsc::UnboundedSender<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl ServerHandle {
    /// Creates the handle, and starts the task.
    pub(super) fn new(
        options: &ClientOptions,
        server: usize,
        range: Range<usize>,
        initial: &[f32],
        agreement: Arc<Agreement>,
    ) -> Self {
        let task = ServerTask::new(options, server, &range, initial, agreement);
        let (requests, receiver) = mpsc::unbounded_channel();
        Self { range, requests, task: tokio::spawn(task.run(receiver)) }
    }

    /// Returns the values of a whole model's gradient that belong to the server's range.
    pub(super) fn share(&self, gradient: &[f32]) -> HandIn {
        HandIn::Whole(Arc::from(&gradient[self.range.clone()]))
    }

    /// Hands in the values of a part that belong to the server's range. The part begins at the model's
    /// parameter `first`.
    pub(super) fn part(&self, first: usize, part: &[f32]) {
        let begin = self.range.start.clamp(first, first + part.len());
        let end = self.range.end.clamp(begin, first + part.len());
        let values = &part[begin - first..end - first];
        if !values.is_empty() {
            let (first, values) = (begin - self.range.start, values.to_vec());
            self.ask(Request::Part { first, values });
        }
    }

    /// Drops the parts; the receiver is notified once the server's task has done so.
    pub(super) fn drop_parts(&self) -> oneshot::Receiver<()> {
        let (done, dropped) = oneshot::channel();
        self.ask(Request::Drop(done));
        dropped
    }

    /// Hands in a gradient at once, and returns a future that waits for the answering step. The wait
    /// continues over broken sessions. `released` becomes true when another server has released this
    /// worker.
    pub(super) fn exchange(
        &self,
        hand_in: HandIn,
        released: watch::Receiver<bool>,
        turn: &Turn,
    ) -> impl Future<Output = Result<Step, ClientError>> + use<> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Exchange(Exchange { hand_in, released, answer, _turn: Arc::clone(turn) }));
        async { answered.await.unwrap_or(Err(ClientError::Stopped)) }
    }

    fn ask(&self, request: Request) {
        // The task ends only when the handle is dropped or the runtime shuts down. Then the reply channel is
        // dropped, and the caller gets an error.
        let _ = self.requests.send(request);
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
