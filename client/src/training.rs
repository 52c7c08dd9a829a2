use std::ops::Range;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Streaming;
use tributary_api::agent::v1;

use crate::error::ClientError;
use crate::segment::Segment;
use crate::session::{self, Session, Unanswered};

/// How this process takes part in a parameter server's job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingOptions {
    /// The servers' addresses, `HOST:PORT`, each of which holds a range of the parameters, in the ranges' order.
    pub servers: Vec<String>,
    /// The job's name.
    pub job: String,
    /// The job's token; empty if it has none.
    pub token: Vec<u8>,
    /// This worker's rank.
    pub worker: u16,
    /// What gradients are encoded with: `none`, `casq-4-ef`, and so on.
    pub codec: String,
    /// What parameters are encoded with on their way back, by the same names; error feedback is always part of it.
    pub parameters_codec: String,
    /// How long a server may be away before the worker gives up; none: as long as the agent thinks right.
    pub patience: Option<Duration>,
}

impl TrainingOptions {
    /// Without a token and a codec, and with the agent's patience.
    pub fn new(servers: Vec<String>, job: impl Into<String>, worker: u16) -> Self {
        let (job, token) = (job.into(), Vec::new());
        let (codec, parameters_codec) = ("none".to_owned(), "none".to_owned());
        Self { servers, job, token, worker, codec, parameters_codec, patience: None }
    }
}

/// This process's part in a parameter server's job, as one of its workers. Dropping it is leaving.
#[derive(Debug)]
pub struct Training {
    session: Session,
    /// The sign of life: the agent takes its end for this process's.
    _events: Streaming<v1::TrainingEvent>,
    host: String,
    /// Done with the last call that concerns parts.
    parts: Mutex<Option<oneshot::Receiver<()>>>,
}

/// What to compute the next gradient from, besides the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which iteration comes next: how many of this worker's gradients all parameters contain. After a server has
    /// gone back to its checkpoint it is lower than expected, and what is lost has to be done again.
    pub iteration: u64,
    /// Updates that have been made to the parameters, by all workers' gradients; with several servers those of the one
    /// that is the furthest behind. A server's restart from its checkpoint takes it back, too.
    pub updates: u64,
    /// The worker whose gradient, or leaving, made the last server let this one go on.
    pub released_by: u32,
    /// Whether this worker is in a synchronous group.
    pub in_group: bool,
}

impl Training {
    pub(crate) fn new(session: Session, events: Streaming<v1::TrainingEvent>, host: String) -> Self {
        Self { session, _events: events, host, parts: Mutex::default() }
    }

    /// This host, as the topology names it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// As [`Job::segment`](crate::Job::segment).
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] when there is not as much, [`ClientError::Refused`].
    pub fn segment(
        &self,
        bytes: usize,
    ) -> impl Future<Output = Result<Segment, ClientError>> + Send + 'static + use<> {
        let session = self.session.clone();
        async move { session.open_segment(bytes).await }
    }

    /// Joins the job, and waits until its training has started. All f32 values in `parameters` are what the model
    /// starts from if the servers have none yet; those of the first step take their place.
    ///
    /// # Errors
    /// [`ClientError::Refused`], with the agent's or the server's reason. A call that is broken off (its future
    /// dropped) leaves the segment unusable.
    pub async fn begin(&mut self, parameters: &mut Segment) -> Result<Step, ClientError> {
        self.start_begin(all_of(parameters))?.await
    }

    /// As [`begin`](Self::begin), of values in a segment: the future is the first step, and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's are those of [`begin`](Self::begin).
    pub fn start_begin(&self, (segment, elements): Values<'_>) -> Result<PendingStep, ClientError> {
        let request = v1::BeginTrainingRequest {
            session: self.session.id.clone(),
            parameters: Some(values(segment, &elements)),
        };
        let lent = [Unanswered::new(segment.lend()?)];
        let mut client = self.session.client.clone();
        Ok(Box::pin(async move {
            let answer = client.begin_training(request).await;
            Ok(session::answer(answer, lent)?.into())
        }))
    }

    /// Hands in the gradient of the last step's iteration, one value for each parameter, and waits for the next
    /// step, whose parameters are put into `parameters`.
    ///
    /// # Errors
    /// As of [`begin`](Self::begin).
    pub async fn push(
        &mut self,
        gradient: &mut Segment,
        parameters: &mut Segment,
    ) -> Result<Step, ClientError> {
        self.start_push(all_of(gradient), all_of(parameters))?.await
    }

    /// As [`push`](Self::push), of values in two segments: the future is the next step, and borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's are those of [`push`](Self::push).
    pub fn start_push(
        &self,
        gradient: Values<'_>,
        parameters: Values<'_>,
    ) -> Result<PendingStep, ClientError> {
        self.start_push_rest(gradient, 0, parameters)
    }

    /// As [`start_push`](Self::start_push), of the last part of a gradient, which begins at the model's parameter
    /// `first`; the others are those that were handed in before. The future waits for theirs.
    ///
    /// # Errors
    /// As of [`start_push`](Self::start_push). After those of the future parts are there still, if some were.
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
        // Where the second one is in use the first one is not lent.
        let lent = [parameters.lend()?, gradient.lend()?].map(Unanswered::new);
        let mut client = self.session.client.clone();
        let (before, done) = self.after_parts();
        Ok(Box::pin(async move {
            let _done = done;
            until(before).await;
            let answer = client.push_gradient(request).await;
            Ok(session::answer(answer, lent)?.into())
        }))
    }

    /// Hands in a part of the next gradient, before the rest of it is there; it begins at the model's parameter `first`.
    /// The future is done when the agent has read it, and borrows nothing. Parts come in any order, each from a segment
    /// that no other call uses, and take effect with [`start_push_rest`](Self::start_push_rest), whose future waits for
    /// theirs: all of them have to be awaited, or dropped.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`]. The future's: [`ClientError::Refused`], where the part is not counted.
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
        let (before, done) = self.after_parts();
        Ok(Box::pin(async move {
            let _done = done;
            until(before).await;
            let answer = client.push_part(request).await;
            session::answer(answer, lent).map(drop)
        }))
    }

    /// Lets go of the parts that were handed in: there will be no gradient of them. Waits for a step that is under way.
    /// The future borrows nothing.
    ///
    /// # Errors
    /// [`ClientError::Refused`]
    pub fn start_drop_parts(&self) -> PendingPart {
        let request = v1::DropPartsRequest { session: self.session.id.clone() };
        let mut client = self.session.client.clone();
        let (before, done) = self.after_parts();
        Box::pin(async move {
            let _done = done;
            until(before).await;
            client.drop_parts(request).await.map_err(ClientError::refused).map(drop)
        })
    }

    /// What the next call waits for, and what tells the one behind it that it is done, by being dropped: the agent takes
    /// calls in the order in which they come, which need not be that in which they were started.
    fn after_parts(&self) -> (Option<oneshot::Receiver<()>>, oneshot::Sender<()>) {
        let (done, is_done) = oneshot::channel();
        let mut last = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        (last.replace(is_done), done)
    }
}

/// Waits for the call before.
async fn until(before: Option<oneshot::Receiver<()>>) {
    if let Some(before) = before {
        // It is dropped, with its call.
        let _ = before.await;
    }
}

/// f32 values of a segment: which of them, counted from its beginning.
pub type Values<'a> = (&'a mut Segment, Range<usize>);

/// A part of a gradient on its way to the agent.
pub type PendingPart = Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>>;

/// A step that is under way.
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
