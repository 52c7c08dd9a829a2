//! A worker's connection to one server.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::agreement::Agreement;
use super::error::ClientError;
use super::exchange::{Exchange, HandIn, Request, Turn};
use super::options::{ClientOptions, Step};
use super::server_task::ServerTask;

/// A server's range of the parameters, and the task that talks to it. Dropping it ends the session.
pub(super) struct ServerHandle {
    range: Range<usize>,
    requests: mpsc::UnboundedSender<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl ServerHandle {
    /// Starts the task.
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

    /// The server's share of a gradient of the whole model.
    pub(super) fn share(&self, gradient: &[f32]) -> HandIn {
        HandIn::Whole(Arc::from(&gradient[self.range.clone()]))
    }

    /// Hands in the values of a part of the gradient that fall into the server's range; the part begins at
    /// the model's parameter `first`.
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

    /// Hands something in at once, and waits for the step that answers it, over as many sessions as it
    /// takes. `released` says whether another server has released this worker.
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
        // The task ends only with this, or with the runtime; then the reply is dropped, and the caller gets an error.
        let _ = self.requests.send(request);
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
