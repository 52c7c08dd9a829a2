//! A worker's way to one server.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, mpsc, oneshot, watch};

use super::talk::Talk;
use super::{ClientError, ClientOptions, Step};

/// What a server's task is asked for.
pub(super) enum Request {
    /// A part of the range's next gradient.
    Part {
        first: usize,
        values: Vec<f32>,
    },
    /// There will be no gradient of the parts; told once that is done.
    Drop(oneshot::Sender<()>),
    Exchange(Exchange),
}

/// Something to hand in, and where the step that answers it goes.
pub(super) struct Exchange {
    pub(super) hand_in: HandIn,
    /// Whether another server has let this worker go.
    pub(super) released: watch::Receiver<bool>,
    pub(super) answer: oneshot::Sender<Result<Step, ClientError>>,
    /// Held until all servers have answered: no more than one exchange and the parts of one gradient wait.
    pub(super) _turn: Turn,
}

/// The right to hand something in.
pub(super) type Turn = Arc<OwnedMutexGuard<()>>;

/// What a worker hands in to a server.
pub(super) enum HandIn {
    /// It joins.
    Nothing,
    /// The range's gradient.
    Whole(Arc<[f32]>),
    /// The gradient that the parts make up.
    Parts,
}

/// A server's range of the parameters, and the task that talks to it. Dropping it ends the session.
pub(super) struct Link {
    range: Range<usize>,
    requests: mpsc::UnboundedSender<Request>,
    task: tokio::task::JoinHandle<()>,
}

impl Link {
    /// Starts the task.
    pub(super) fn new(options: &ClientOptions, server: usize, range: Range<usize>, initial: &[f32]) -> Self {
        let talk = Talk::new(options, server, &range, initial);
        let (requests, receiver) = mpsc::unbounded_channel();
        Self { range, requests, task: tokio::spawn(talk.run(receiver)) }
    }

    /// What the server gets of a gradient of the whole model.
    pub(super) fn share(&self, gradient: &[f32]) -> HandIn {
        HandIn::Whole(Arc::from(&gradient[self.range.clone()]))
    }

    /// Hands in what falls into the server's range of a part of the gradient, which begins at the model's parameter
    /// `first`.
    pub(super) fn part(&self, first: usize, part: &[f32]) {
        let begin = self.range.start.clamp(first, first + part.len());
        let end = self.range.end.clamp(begin, first + part.len());
        let values = &part[begin - first..end - first];
        if !values.is_empty() {
            let (first, values) = (begin - self.range.start, values.to_vec());
            self.ask(Request::Part { first, values });
        }
    }

    /// Lets go of the parts; done once the server's task has.
    pub(super) fn drop_parts(&self) -> oneshot::Receiver<()> {
        let (done, dropped) = oneshot::channel();
        self.ask(Request::Drop(done));
        dropped
    }

    /// Hands something in, at once, and waits for the step that answers it, over as many sessions as it takes.
    /// `released` says that another server has let this worker go.
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
        // The task ends only with this, or with the runtime: then nobody answers, which whoever waits is told.
        let _ = self.requests.send(request);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}
