use std::num::NonZeroU16;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::Streaming;
use tributary_api::agent::v1;
use tributary_api::agent::v1::training_event::Event;

use crate::error::ClientError;
use crate::options::Observer;
use crate::segment::Segment;
use crate::session::{self, Session, Unanswered};
use crate::waits::{Limit, Waits};
use crate::watchdog::Watchdog;

/// Options for taking part in a parameter server's job.
#[derive(Debug, Clone)]
pub struct TrainingOptions {
    /// The servers' addresses, `HOST:PORT`. Each holds a range of the parameters, in the ranges' order.
    pub servers: Vec<String>,
    /// The job's name.
    pub job: String,
    /// The job's token; empty if it has none.
    pub token: Vec<u8>,
    /// This worker's rank.
    pub worker: u16,
    /// Number of workers that share the data, if this one knows: the server refuses it if
    /// its job has another number.
    pub workers: Option<NonZeroU16>,
    /// Further settings that all workers must have in common, in up to 255 bytes of text.
    /// The server refuses a worker whose text differs from the text of the workers before it. Empty: the worker does
    /// not state any.
    pub settings: String,
    /// The codec of gradients: `none`, `casq-4-ef`, and so on.
    pub codec: String,
    /// The codec of parameters on their way back, by the same names; it always has error feedback.
    pub parameters_codec: String,
    /// Time for which a server may be away, or the agent silent, before the worker gives up; `None`: the
    /// agent's default for servers, and no limit for the agent.
    pub patience: Option<Duration>,
    /// Receives the reason for the worker's wait after two seconds, and every five seconds from then on.
    pub observer: Observer,
}

impl TrainingOptions {
    /// Options without a token, a number of workers, settings and codecs, and with the agent's patience.
    pub fn new(servers: Vec<String>, job: impl Into<String>, worker: u16) -> Self {
        Self {
            servers,
            job: job.into(),
            token: Vec::new(),
            worker,
            workers: None,
            settings: String::new(),
            codec: "none".to_owned(),
            parameters_codec: "none".to_owned(),
            patience: None,
            observer: Observer::default(),
        }
    }
}

/// This process's part in a parameter server's job, as one of its workers. Dropping it leaves the job.
#[derive(Debug)]
pub struct Training {
    session: Session,
    watchdog: Watchdog,
    /// For how long the agent may be silent while a call waits for it.
    limit: Limit,
    /// Keeps the session alive: the agent takes the stream's end for the end of this process.
    events: AbortHandle,
    host: String,
    /// Done when the last call that concerns parts is.
    parts: Mutex<Option<oneshot::Receiver<()>>>,
}

/// The information for computing the next gradient, besides the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The next iteration: how many of this worker's gradients are in all parameters.
    /// After a server has gone back to its checkpoint it is lower than expected, and the lost iterations have to be
    /// done again.
    pub iteration: u64,
    /// The number of updates of the parameters by all workers' gradients; with several servers, of the
    /// server that is furthest behind. A server's restart from its checkpoint sets it back, too.
    pub updates: u64,
    /// The worker whose gradient, or whose leaving, made the last server release this worker.
    pub released_by: u32,
    /// True if this worker is in a synchronous group.
    pub in_group: bool,
}

impl Training {
    pub(crate) fn new(
        session: Session,
        watchdog: Watchdog,
        limit: Limit,
        events: Streaming<v1::TrainingEvent>,
        observer: Observer,
        host: String,
    ) -> Self {
        let events = tokio::spawn(follow(events, Arc::clone(watchdog.waits()), observer)).abort_handle();
        Self { session, watchdog, limit, events, host, parts: Mutex::default() }
    }

    /// This host's name in the topology.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Makes shared memory, as [`Job::segment`](crate::Job::segment) does.
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] when there is not enough, [`ClientError::Refused`].
    pub fn segment(
        &self,
        bytes: usize,
    ) -> impl Future<Output = Result<Segment, ClientError>> + Send + 'static + use<> {
        let session = self.session.clone();
        self.call("a request for shared memory", async move { session.open_segment(bytes).await })
    }

    /// Joins the job, and waits until its training has started.
    /// All f32 values in `parameters` are the model's first parameters if the servers have none yet; the parameters of
    /// the first step replace them.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the agent's or the server's reason. If the future is dropped, the segment stays
    /// unusable.
    pub async fn begin(&mut self, parameters: &mut Segment) -> Result<Step, ClientError> {
        self.start_begin(all_of(parameters))?.await
    }

    /// Begins as [`begin`](Self::begin) does, with values in a segment: the future yields the first step,
    /// and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's errors are those of [`begin`](Self::begin).
    pub fn start_begin(&self, (segment, elements): Values<'_>) -> Result<PendingStep, ClientError> {
        let request = v1::BeginTrainingRequest {
            session: self.session.id.clone(),
            parameters: Some(values(segment, &elements)),
        };
        let lent = [Unanswered::new(segment.lend()?)];
        let mut client = self.session.client.clone();
        let begun = async move { session::answer(client.begin_training(request).await, lent) };
        let begun = self.call("the training's begin", begun);
        Ok(Box::pin(async move { Ok(begun.await?.into()) }))
    }

    /// Hands in the gradient of the last step's iteration, one value for each parameter, and waits for the
    /// next step, whose parameters are written to `parameters`.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    pub async fn push(
        &mut self,
        gradient: &mut Segment,
        parameters: &mut Segment,
    ) -> Result<Step, ClientError> {
        self.start_push(all_of(gradient), all_of(parameters))?.await
    }

    /// Pushes as [`push`](Self::push) does, with values in two segments: the future yields the next step,
    /// and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's errors are those of [`push`](Self::push).
    pub fn start_push(
        &self,
        gradient: Values<'_>,
        parameters: Values<'_>,
    ) -> Result<PendingStep, ClientError> {
        self.start_push_rest(gradient, 0, parameters)
    }

    /// Pushes the last part of a gradient, which begins at the model's parameter `first`; see
    /// [`start_push`](Self::start_push). The earlier calls have handed in the other parts; the future waits for their
    /// futures.
    ///
    /// # Errors
    /// As for [`start_push`](Self::start_push). After an error of the future, earlier parts are still there.
    pub fn start_push_rest(
        &self,
        (gradient, given): Values<'_>,
        first: usize,
        (parameters, taken): Values<'_>,
    ) -> Result<PendingStep, ClientError> {
        let request = v1::PushGradientRequest {
            session: self.session.id.clone(),
            gradient: Some(values(gradient, &given)),
            parameters: Some(values(parameters, &taken)),
            first: first as u64,
        };
        // If the second segment is in use, the first is not lent.
        let lent = [parameters.lend()?, gradient.lend()?].map(Unanswered::new);
        let mut client = self.session.client.clone();
        let pushed = async move { session::answer(client.push_gradient(request).await, lent) };
        let pushed = self.call_after_parts("a step of the training", pushed);
        Ok(Box::pin(async move { Ok(pushed.await?.into()) }))
    }

    /// Hands in a part of the next gradient before the rest exists; it begins at the model's parameter
    /// `first`. The future is done when the agent has read the part, and borrows nothing. Parts come in any order, each
    /// from a segment that no other call uses, and take effect with [`start_push_rest`](Self::start_push_rest), whose
    /// future waits for the parts' futures: the caller must await or drop all of them.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's error: [`ClientError::Refused`]; the part is then not counted.
    pub fn start_push_part(
        &self,
        (part, given): Values<'_>,
        first: usize,
    ) -> Result<PendingPart, ClientError> {
        let request = v1::PushPartRequest {
            session: self.session.id.clone(),
            part: Some(values(part, &given)),
            first: first as u64,
        };
        let lent = [Unanswered::new(part.lend()?)];
        let mut client = self.session.client.clone();
        let pushed = async move { session::answer(client.push_part(request).await, lent).map(drop) };
        Ok(Box::pin(self.call_after_parts("a part of a gradient", pushed)))
    }

    /// Drops the parts that were handed in: there will be no gradient of them.
    /// Waits for a step that is under way. The future borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::Refused`]
    pub fn start_drop_parts(&self) -> PendingPart {
        let request = v1::DropPartsRequest { session: self.session.id.clone() };
        let mut client = self.session.client.clone();
        let dropped = async move { client.drop_parts(request).await.map_err(ClientError::refused).map(drop) };
        Box::pin(self.call_after_parts("a request to drop parts of a gradient", dropped))
    }

    /// Waits for the answer to a call, unless the process gives the agent up.
    /// The call begins at the first poll.
    fn call<T, C>(
        &self,
        what: &'static str,
        call: C,
    ) -> impl Future<Output = Result<T, ClientError>> + Send + 'static + use<T, C>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let (waits, limit) = (Arc::clone(self.watchdog.waits()), self.limit);
        async move { waits.call(what, limit, call).await }
    }

    /// Calls once the previous call that concerns parts is done: the agent takes calls in the order of
    /// their arrival, which need not be the order in which they were started.
    fn call_after_parts<T, C>(
        &self,
        what: &'static str,
        call: C,
    ) -> impl Future<Output = Result<T, ClientError>> + Send + 'static + use<T, C>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        let (done, is_done) = oneshot::channel();
        let before = self.parts.lock().replace(is_done);
        let call = self.call(what, call);
        async move {
            // Dropped together with this future, which releases the following call.
            let _done = done;
            until(before).await;
            call.await
        }
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        self.events.abort();
    }
}

/// Passes on what the agent says until the stream ends.
async fn follow(mut events: Streaming<v1::TrainingEvent>, waits: Arc<Waits>, observer: Observer) {
    // An end with an error shows in the next call.
    while let Ok(Some(event)) = events.message().await {
        waits.heard();
        if let Some(Event::Waiting(waiting)) = event.event {
            observer.tell(waiting);
        }
    }
}

/// Waits for the previous call.
async fn until(before: Option<oneshot::Receiver<()>>) {
    if let Some(before) = before {
        // The sender is dropped together with its call.
        let _ = before.await;
    }
}

/// f32 values of a segment: a range of them, counted from its beginning.
pub type Values<'a> = (&'a mut Segment, Range<usize>);

/// A part of a gradient on its way to the agent.
pub type PendingPart = Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>>;

/// The future of a step.
pub type PendingStep = Pin<Box<dyn Future<Output = Result<Step, ClientError>> + Send>>;

fn all_of(segment: &mut Segment) -> Values<'_> {
    let all = 0..segment.len() / size_of::<f32>();
    (segment, all)
}

fn values(segment: &Segment, elements: &Range<usize>) -> v1::Values {
    let offset = (elements.start as u64).saturating_mul(size_of::<f32>() as u64);
    v1::Values { segment: segment.id, offset, count: elements.len() as u64 }
}

impl From<v1::Step> for Step {
    fn from(v1::Step { iteration, updates, released_by, in_group }: v1::Step) -> Self {
        Self { iteration, updates, released_by, in_group }
    }
}
