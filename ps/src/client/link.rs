//! A worker's way to one server.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::talk::{Request, Talk};
use super::{ClientError, ClientOptions, Step};

/// A server's range of the parameters, and the task that talks to it. Dropping it ends the session.
pub(super) struct Link {
    range: Range<usize>,
    requests: mpsc::Sender<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl Link {
    /// Starts the task.
    pub(super) fn new(options: &ClientOptions, server: usize, range: Range<usize>, initial: &[f32]) -> Self {
        let talk = Talk::new(options, server, &range, initial);
        let (requests, receiver) = mpsc::channel(1);
        Self { range, requests, task: tokio::spawn(talk.run(receiver)) }
    }

    /// Hands in a gradient of the whole model, if there is one, and waits for the step that answers it, over as
    /// many sessions as it takes. `released` says that another server has let this worker go.
    pub(super) async fn exchange(
        &self,
        gradient: Option<&[f32]>,
        released: watch::Receiver<bool>,
    ) -> Result<Step, ClientError> {
        let gradient = gradient.map(|gradient| Arc::from(&gradient[self.range.clone()]));
        let (answer, answered) = oneshot::channel();
        // The task ends only with this, or with the runtime.
        let _ = self.requests.send(Request { gradient, released, answer }).await;
        answered.await.unwrap_or(Err(ClientError::Stopped))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}
