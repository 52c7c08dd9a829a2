//! A training process's part in a parameter server's job.

use std::sync::Arc;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::{Code, Status};
use tributary_api::agent::v1;
use tributary_ps::client::{Client, ClientError, ClientOptions, Step};

use super::account::{Account, InUse};
use super::budget::Permit;
use super::segment::{ElementType, Place, Segment};
use super::segments::{self, Segments};

/// How many times the size of the parameters a step takes at most, whatever the servers do (see [`memory`]).
const COPIES: u64 = 14;

/// One process's part: a worker of the job, from the first step on.
#[derive(Debug)]
pub(crate) struct Training {
    account: Arc<Account>,
    commands: mpsc::Sender<Command>,
    /// Held by the step that is under way; those that wait get it in the order of their calls.
    turn: Arc<AsyncMutex<()>>,
    work: AbortHandle,
}

struct Command {
    values: Vec<f32>,
    what: What,
    reply: oneshot::Sender<Result<Step, Status>>,
    /// The turn ends with the work, and not with the caller's patience.
    _held: (OwnedMutexGuard<()>, InUse),
}

/// What a command's values are.
enum What {
    Initial,
    Gradient,
}

impl Training {
    /// Nobody joins before [`begin`](Self::begin). `descriptors` are those of its connections. Must be called in a
    /// tokio runtime.
    pub(crate) fn new(options: ClientOptions, account: Arc<Account>, descriptors: Permit) -> Self {
        let (commands, receiver) = mpsc::channel(1);
        let held = (Arc::clone(&account), descriptors);
        let work = async move {
            work(options, receiver).await;
            drop(held);
        };
        Self { account, commands, turn: Arc::default(), work: tokio::spawn(work).abort_handle() }
    }

    /// Joins with the parameters in shared memory, and puts those of the first step in their place.
    pub(crate) async fn begin(
        &self,
        segments: &Segments,
        request: v1::BeginTrainingRequest,
    ) -> Result<v1::Step, Status> {
        let parameters = find(segments, request.parameters)?;
        self.step(What::Initial, &parameters, &parameters).await
    }

    /// Hands a gradient in, and puts the next step's parameters into shared memory.
    pub(crate) async fn push(
        &self,
        segments: &Segments,
        request: v1::PushGradientRequest,
    ) -> Result<v1::Step, Status> {
        let (gradient, parameters) = (find(segments, request.gradient)?, find(segments, request.parameters)?);
        let (given, taken) = (gradient.place.count(), parameters.place.count());
        if given != taken {
            let problem = format!("a gradient of {given} values, and room for {taken} parameters");
            return Err(Status::invalid_argument(problem));
        }
        self.step(What::Gradient, &gradient, &parameters).await
    }

    /// Leaves the job; whoever waits for a step is told so.
    pub(crate) fn leave(&self) {
        self.work.abort();
    }

    async fn step(&self, what: What, from: &Values, to: &Values) -> Result<v1::Step, Status> {
        let over = || Status::aborted("the training is over: its process or its agent has ended it");
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let in_use = self.account.take(memory(from.place))?;
        let values = from.read().await?;
        let (reply, answer) = oneshot::channel();
        let command = Command { values, what, reply, _held: (turn, in_use) };
        self.commands.send(command).await.map_err(|_| over())?;
        let Step { iteration, updates, parameters, released_by, in_group } =
            answer.await.map_err(|_| over())??;
        to.write(parameters).await?;
        Ok(v1::Step { iteration, updates, released_by: released_by.into(), in_group })
    }
}

/// Does what it is told, one after the other, whether or not the callers have the patience to wait. That it is
/// dropped is the worker's leaving.
async fn work(options: ClientOptions, mut commands: mpsc::Receiver<Command>) {
    let mut client = None;
    while let Some(Command { values, what, reply, _held }) = commands.recv().await {
        let step = match (what, &mut client) {
            (What::Gradient, Some(client)) => {
                Client::push(client, &values).await.map_err(|error| status(&error))
            }
            (What::Gradient, None) => Err(Status::failed_precondition("begin the training first")),
            (What::Initial, Some(_)) => Err(Status::failed_precondition("the training has begun already")),
            (What::Initial, none) => match Client::join(options.clone(), &values).await {
                Ok((joined, step)) => {
                    *none = Some(joined);
                    Ok(step)
                }
                Err(error) => Err(status(&error)),
            },
        };
        // Nobody may be waiting any more.
        let _ = reply.send(step);
    }
}

/// Bytes that a step of a training of so many parameters takes at most. Between steps it is less.
///
/// What stays: the initial parameters as they are sent, in case that a server has lost them, and what error feedback
/// owes. For a step: the gradient as it was read, as its server's part of it, and two older ones, which the fabric may
/// still be aggregating; its code, twice, and twice as it is sent; the parameters as they come, decoded, for the server's
/// range, and for the process. Ten times their size was measured, with servers that mean well. What the fabric takes of
/// it is counted when it does.
fn memory(values: Place) -> u64 {
    values.bytes().saturating_mul(COPIES)
}

/// Values in shared memory.
struct Values {
    segment: Arc<Segment>,
    place: Place,
}

fn find(segments: &Segments, values: Option<v1::Values>) -> Result<Values, Status> {
    let v1::Values { segment, offset, count } =
        values.ok_or_else(|| Status::invalid_argument("where the values are is missing"))?;
    let (segment, place) = segments.place(segment, offset, ElementType::F32, count)?;
    Ok(Values { segment, place })
}

impl Values {
    async fn read(&self) -> Result<Vec<f32>, Status> {
        let (segment, place) = (Arc::clone(&self.segment), self.place);
        blocking(move || segment.read_elements(place)).await
    }

    async fn write(&self, values: Vec<f32>) -> Result<(), Status> {
        let (segment, place) = (Arc::clone(&self.segment), self.place);
        blocking(move || segment.write_elements(place, &values)).await
    }
}

/// Large tensors take a while: not on the threads that all sessions share.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(error.to_string()))?.map_err(segments::unusable)
}

/// In the API's terms.
fn status(error: &ClientError) -> Status {
    let code = match error {
        ClientError::Servers { .. }
        | ClientError::Codec(_)
        | ClientError::Length { .. }
        | ClientError::Parts(_) => Code::InvalidArgument,
        ClientError::Encode(_) => Code::FailedPrecondition,
        ClientError::NoTrust(_) | ClientError::Away { .. } => Code::Unavailable,
        ClientError::Refused { status, .. } => status.code(),
        ClientError::Step { .. } | ClientError::Stopped => Code::Internal,
    };
    Status::new(code, error.to_string())
}
