//! A training process's part in a training with parameter servers.

use std::sync::Arc;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::{Code, Status};
use tributary_api::agent::v1;
use tributary_protocol::ElementType;
use tributary_ps::client::{Client, ClientError, ClientOptions, Step};

use super::account::{Account, InUse};
use super::budget::Permit;
use super::segment::{ElementRange, Segment};
use super::segments::{self, Segments};

/// The most memory that a step can take, as a multiple of the size of the parameters. It holds for
/// any behaviour of the servers (see [`memory`]).
const COPIES: u64 = 14;

/// One process's part in a training: it becomes a worker of the job with the first step.
#[derive(Debug)]
pub(crate) struct Training {
    account: Arc<Account>,
    commands: mpsc::Sender<Command>,
    /// The lock that the call under way holds. Waiting calls get it in the order in which they were made.
    turn: Arc<AsyncMutex<Turn>>,
    work: AbortHandle,
}

/// The state that one call passes to the next.
#[derive(Debug, Default)]
struct Turn {
    /// The number of the model's parameters; `None` before training has begun.
    parameters: Option<usize>,
    /// The memory of the gradient under way, from the gradient's first part to its step.
    in_use: Option<InUse>,
}

struct Command {
    request: Request,
    /// Released when the work is done, even if the caller has already stopped waiting.
    turn: OwnedMutexGuard<Turn>,
}

/// A request to the client, and where to send the reply.
enum Request {
    Begin { initial: Vec<f32>, reply: Reply<Step> },
    Push { first: usize, values: Vec<f32>, reply: Reply<Step> },
    Part { first: usize, values: Vec<f32>, reply: Reply<()> },
    DropParts { reply: Reply<()> },
}

type Reply<T> = oneshot::Sender<Result<T, Status>>;

impl Training {
    /// Creates a part that joins the job only in [`begin`](Self::begin). `descriptors` are the file
    /// descriptors of its connections. Must be called in a tokio runtime.
    pub(crate) fn new(options: ClientOptions, account: Arc<Account>, descriptors: Permit) -> Self {
        let (commands, receiver) = mpsc::channel(1);
        let held = (Arc::clone(&account), descriptors);
        let work = async move {
            work(options, receiver).await;
            drop(held);
        };
        Self { account, commands, turn: Arc::default(), work: tokio::spawn(work).abort_handle() }
    }

    /// Joins the job with the parameters in shared memory, and writes the parameters of the first step
    /// back to it.
    pub(crate) async fn begin(
        &self,
        segments: &Segments,
        request: v1::BeginTrainingRequest,
    ) -> Result<v1::Step, Status> {
        let parameters = find(segments, request.parameters)?;
        let turn = self.turn().await;
        let (turn, initial) = self.read(turn, &parameters, parameters.place.count()).await?;
        self.step(|reply| Request::Begin { initial, reply }, turn, &parameters).await
    }

    /// Sends a gradient, or its last part, and writes the next step's parameters to shared memory.
    pub(crate) async fn push(
        &self,
        segments: &Segments,
        request: v1::PushGradientRequest,
    ) -> Result<v1::Step, Status> {
        let (gradient, parameters) = (find(segments, request.gradient)?, find(segments, request.parameters)?);
        let (given, taken, first) = (gradient.place.count(), parameters.place.count(), place(request.first));
        let turn = self.turn().await;
        let misfits = match turn.in_use {
            Some(_) => given > taken || turn.parameters != Some(taken),
            None => given != taken || first > 0,
        };
        if misfits {
            let problem = format!(
                "a gradient of {given} values from value {first} on, and room for {taken} parameters"
            );
            return Err(Status::invalid_argument(problem));
        }
        let (turn, values) = self.read(turn, &gradient, taken).await?;
        self.step(|reply| Request::Push { first, values, reply }, turn, &parameters).await
    }

    /// Adds a part to the next gradient.
    pub(crate) async fn push_part(
        &self,
        segments: &Segments,
        request: v1::PushPartRequest,
    ) -> Result<(), Status> {
        let (part, first) = (find(segments, request.part)?, place(request.first));
        let turn = self.turn().await;
        let parameters = turn.parameters.ok_or_else(not_begun)?;
        if part.place.count() > parameters {
            let given = part.place.count();
            let problem = format!("a part of {given} values of a gradient of {parameters}");
            return Err(Status::invalid_argument(problem));
        }
        let (turn, values) = self.read(turn, &part, parameters).await?;
        self.ask(|reply| Request::Part { first, values, reply }, turn).await
    }

    /// Drops the parts of the gradient that the process has already pushed.
    pub(crate) async fn drop_parts(&self) -> Result<(), Status> {
        let turn = self.turn().await;
        self.ask(|reply| Request::DropParts { reply }, turn).await
    }

    /// Leaves the job. Calls that wait for a step get an error.
    pub(crate) fn leave(&self) {
        self.work.abort();
    }

    async fn turn(&self) -> OwnedMutexGuard<Turn> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Reads values from shared memory. Before the first part of a gradient, takes the memory of the
    /// whole gradient.
    async fn read(
        &self,
        mut turn: OwnedMutexGuard<Turn>,
        from: &Values,
        parameters: usize,
    ) -> Result<(OwnedMutexGuard<Turn>, Vec<f32>), Status> {
        let new = match turn.in_use {
            Some(_) => None,
            None => Some(self.account.take(memory(parameters))?),
        };
        let values = from.read().await?;
        turn.in_use = turn.in_use.take().or(new);
        Ok((turn, values))
    }

    async fn step(
        &self,
        request: impl FnOnce(Reply<Step>) -> Request,
        turn: OwnedMutexGuard<Turn>,
        to: &Values,
    ) -> Result<v1::Step, Status> {
        let Step { iteration, updates, parameters, released_by, in_group } = self.ask(request, turn).await?;
        to.write(parameters).await?;
        Ok(v1::Step { iteration, updates, released_by: released_by.into(), in_group })
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
        turn: OwnedMutexGuard<Turn>,
    ) -> Result<T, Status> {
        let over = || Status::aborted("the training is over: its process or its agent has ended it");
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command { request: request(reply), turn }).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }
}

/// Carries out commands one after the other, even if their callers no longer wait. Dropping the
/// future leaves the job.
async fn work(options: ClientOptions, mut commands: mpsc::Receiver<Command>) {
    let mut client = None;
    while let Some(Command { request, mut turn }) = commands.recv().await {
        // The reply is dropped if its caller no longer waits for it.
        match (request, &mut client) {
            (Request::Begin { initial, reply }, none @ None) => {
                let joined = Client::join(options.clone(), &initial).await;
                let step = joined.map(|(joined, step)| {
                    turn.parameters = Some(initial.len());
                    *none = Some(joined);
                    step
                });
                end(turn, none.as_ref());
                let _ = reply.send(step.map_err(|error| status(&error)));
            }
            (Request::Push { first, values, reply }, Some(client)) => {
                let step = push(client, first, &values).await;
                end(turn, Some(client));
                let _ = reply.send(step.map_err(|error| status(&error)));
            }
            (Request::Part { first, values, reply }, Some(client)) => {
                let pushed = client.push_part(first, &values);
                end(turn, Some(client));
                let _ = reply.send(pushed.map_err(|error| status(&error)));
            }
            (Request::DropParts { reply }, client) => {
                if let Some(client) = client {
                    client.drop_parts().await;
                }
                end(turn, client.as_ref());
                let _ = reply.send(Ok(()));
            }
            (Request::Begin { reply, .. }, Some(client)) => {
                end(turn, Some(client));
                let _ = reply.send(Err(Status::failed_precondition("the training has begun already")));
            }
            (Request::Push { reply, .. }, None) => {
                end(turn, None);
                let _ = reply.send(Err(not_begun()));
            }
            (Request::Part { reply, .. }, None) => {
                end(turn, None);
                let _ = reply.send(Err(not_begun()));
            }
        }
    }
}

/// Sends a whole gradient, or adds the last part of a gradient and sends it.
async fn push(client: &mut Client, first: usize, values: &[f32]) -> Result<Step, ClientError> {
    if !client.has_parts() {
        return client.push(values).await;
    }
    client.push_part(first, values)?;
    client.push_parts().await
}

/// Ends a call's turn. The memory stays in use only if the client holds parts of a gradient.
fn end(mut turn: OwnedMutexGuard<Turn>, client: Option<&Client>) {
    if !client.is_some_and(Client::has_parts) {
        turn.in_use = None;
    }
}

fn not_begun() -> Status {
    Status::failed_precondition("begin the training first")
}

/// Converts a position to an index. A position beyond all memory becomes the largest index, where no
/// part can start.
fn place(first: u64) -> usize {
    usize::try_from(first).unwrap_or(usize::MAX)
}

/// Returns the most bytes that a training step with `parameters` parameters takes. Between steps, the
/// training takes less.
///
/// Copies that stay allocated between steps: the initial parameters as the agent sends them, in case a server has lost
/// them, and the residual of error feedback.
///
/// Copies for a step: the gradient that the agent has read, its server's part of it, and two older gradients, which the
/// fabric may still be aggregating; the encoded gradient, twice, and twice in wire format; the parameters as they
/// arrive, decoded, for the server's range, and for the process.
///
/// Measurements with servers that follow the protocol gave ten times the parameters' size. The fabric's own memory is
/// counted when the fabric takes it.
fn memory(parameters: usize) -> u64 {
    (parameters as u64).saturating_mul(size_of::<f32>() as u64).saturating_mul(COPIES)
}

/// The place of values in shared memory.
struct Values {
    segment: Arc<Segment>,
    place: ElementRange,
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

/// Runs work on large tensors on a blocking thread, because it would delay the threads that all
/// sessions share.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Status::internal(error.to_string()))?.map_err(segments::unusable)
}

/// Converts an error to a status of the API.
fn status(error: &ClientError) -> Status {
    let code = match error {
        ClientError::Servers { .. }
        | ClientError::Codec(_)
        | ClientError::OtherJob { .. }
        | ClientError::Length { .. }
        | ClientError::Parts(_) => Code::InvalidArgument,
        ClientError::Encode(_) => Code::FailedPrecondition,
        ClientError::NoTrust(_) | ClientError::Unreachable { .. } => Code::Unavailable,
        ClientError::Refused { status, .. } => status.code(),
        ClientError::Step { .. } | ClientError::Decode { .. } | ClientError::Stopped => Code::Internal,
    };
    Status::new(code, error.to_string())
}
