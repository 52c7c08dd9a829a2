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

/// Options for a worker of a training with parameter servers.
#[derive(Debug, Clone)]
pub struct TrainingOptions {
    /// The servers' addresses, `HOST:PORT`. Each server holds a range of the parameters, in the order of
    /// the servers.
    pub servers: Vec<String>,
    /// The job's name.
    pub job: String,
    /// The job's token; empty if it has none.
    pub token: Vec<u8>,
    /// This worker's rank.
    pub worker: u16,
    /// The number of workers that share the data, if it is known. A server refuses the worker if its job
    /// has another number of workers.
    pub workers: Option<NonZeroU16>,
    /// Further settings that all workers must have in common, as text of up to 255 bytes. The server
    /// refuses a worker whose text differs from the text of earlier workers. An empty text states no settings.
    pub settings: String,
    /// The codec of gradients: `none`, `casq-4-ef`, and so on.
    pub codec: String,
    /// The codec of parameters from the servers. The names are those of `codec`; it always uses error
    /// feedback.
    pub parameters_codec: String,
    /// Time for which a server may be unreachable, or the agent silent, before the worker stops. `None`
    /// means the agent's default for servers, and no limit for the agent.
    pub patience: Option<Duration>,
    /// The callback that receives the cause of the worker's wait after two seconds, and then every five
    /// seconds.
    pub observer: Observer,
}

impl TrainingOptions {
    /// Returns options without a token, a number of workers, settings or codecs, and with the agent's
    /// default patience.
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

/// This process's part in a training with parameter servers, as a worker. Dropping it leaves the job.
#[derive(Debug)]
pub struct Training {
    session: Session,
    watchdog: Watchdog,
    /// The limit of the agent's silence while a call waits for it.
    limit: Limit,
    /// The task that holds the stream of events. If the stream ends, the agent concludes that this
    /// process has ended.
    events: AbortHandle,
    host: String,
    /// The receiver that ends when the last call about parts has ended.
    parts: Mutex<Option<oneshot::Receiver<()>>>,
}

/// The information, besides the parameters, with which a worker computes its next gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The number of the next iteration: the number of this worker's gradients that all parameters
    /// contain. It is lower than expected after a server has restarted from its checkpoint. The worker must then repeat
    /// the lost iterations.
    pub iteration: u64,
    /// The number of updates of the parameters by all workers' gradients. With several servers, it is the
    /// lowest number. A server's restart from its checkpoint also lowers it.
    pub updates: u64,
    /// The worker whose gradient or departure made the last server release this worker.
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

    /// Returns this host's name in the topology.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Allocates shared memory like [`Job::segment`](crate::Job::segment).
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] if there is not enough memory; [`ClientError::Refused`] if the agent refuses it.
    pub fn segment(
        &self,
        bytes: usize,
    ) -> impl Future<Output = Result<Segment, ClientError>> + Send + 'static + use<> {
        let session = self.session.clone();
        self.call("a request for shared memory", async move { session.open_segment(bytes).await })
    }

    /// Joins the job, and waits until its training has started. If the servers have no parameters yet,
    /// the f32 values in `parameters` become the model's first parameters. The parameters of the first step then
    /// replace these values.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the agent's or the server's reason. If the future is dropped, the segment stays
    /// unusable.
    pub async fn begin(&mut self, parameters: &mut Segment) -> Result<Step, ClientError> {
        self.start_begin(all_of(parameters))?.await
    }

    /// Begins the training like [`begin`](Self::begin), with a range of a segment. The future yields the
    /// first step, and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the segment is in use. The future returns the errors of [`begin`](Self::begin).
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

    /// Sends the gradient of the last step's iteration, with one value for each parameter, and waits for
    /// the next step. The step's parameters are written to `parameters`.
    ///
    /// # Errors
    /// The errors of [`begin`](Self::begin).
    pub async fn push(
        &mut self,
        gradient: &mut Segment,
        parameters: &mut Segment,
    ) -> Result<Step, ClientError> {
        self.start_push(all_of(gradient), all_of(parameters))?.await
    }

    /// Sends a gradient like [`push`](Self::push), with ranges of two segments. The future yields the
    /// next step, and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if a segment is in use. The future returns the errors of [`push`](Self::push).
    pub fn start_push(
        &self,
        gradient: Values<'_>,
        parameters: Values<'_>,
    ) -> Result<PendingStep, ClientError> {
        self.start_push_rest(gradient, 0, parameters)
    }

    /// Sends the last part of a gradient, which begins at the model's parameter `first`; see
    /// [`start_push`](Self::start_push). Earlier calls have sent the other parts. The future waits for their futures.
    ///
    /// # Errors
    /// The errors of [`start_push`](Self::start_push). After an error of the future, the agent still has the earlier
    /// parts.
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
        // If the gradient's segment is in use, the early return ends the loan of the parameters' segment.
        let lent = [parameters.lend()?, gradient.lend()?].map(Unanswered::new);
        let mut client = self.session.client.clone();
        let pushed = async move { session::answer(client.push_gradient(request).await, lent) };
        let pushed = self.call_after_parts("a step of the training", pushed);
        Ok(Box::pin(async move { Ok(pushed.await?.into()) }))
    }

    /// Sends a part of the next gradient before the rest of the gradient exists. The part begins at the
    /// model's parameter `first`. The future ends when the agent has read the part, and borrows nothing. Parts may be
    /// sent in any order, each from a segment that no other call uses. They take effect with
    /// [`start_push_rest`](Self::start_push_rest). Its future waits for the parts' futures, so the caller must await or
    /// drop all of them.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] if the segment is in use. The future returns [`ClientError::Refused`] if the agent
    /// has not accepted the part.
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

    /// Drops the parts of the next gradient that were sent. Waits for a step that is under way. The
    /// future borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the agent refuses the request.
    pub fn start_drop_parts(&self) -> PendingPart {
        let request = v1::DropPartsRequest { session: self.session.id.clone() };
        let mut client = self.session.client.clone();
        let dropped = async move { client.drop_parts(request).await.map_err(ClientError::refused).map(drop) };
        Box::pin(self.call_after_parts("a request to drop parts of a gradient", dropped))
    }

    /// Waits for the answer to a call, unless the process abandons the agent. The call begins at the
    /// first poll.
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

    /// Makes a call after the previous call about parts has ended. The agent handles calls in the order
    /// of their arrival, which may differ from the order in which they were started.
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
            // The sender is dropped with this future, which releases the following call.
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

/// Passes the agent's reports of waits to the observer until the stream ends.
async fn follow(mut events: Streaming<v1::TrainingEvent>, waits: Arc<Waits>, observer: Observer) {
    // If the stream ends with an error, the next call reports it.
    while let Ok(Some(event)) = events.message().await {
        waits.heard();
        if let Some(Event::Waiting(waiting)) = event.event {
            observer.tell(waiting);
        }
    }
}

/// Waits until the previous call has ended.
async fn until(before: Option<oneshot::Receiver<()>>) {
    if let Some(before) = before {
        // The sender is dropped when its call ends.
        let _ = before.await;
    }
}

/// A range of f32 values in a segment, counted from the segment's beginning.
pub type Values<'a> = (&'a mut Segment, Range<usize>);

/// The future of a part of a gradient, which ends when the agent has read the part.
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
