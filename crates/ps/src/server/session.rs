//! One worker's stream. The session checks all messages, so that a job gets only valid ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::JobCredentials;
use tributary_api::ps::parameter_server_server::ParameterServer;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{EndParts, FabricFailed, Hello, Push, Ready, ServerMessage, WorkerMessage};
use tributary_transport::{Names, Peer};

use super::command::{Command, Newcomer, Taken};
use super::holders::Holders;
use super::job::Gradient;
use super::parts::Assembly;
use super::spec::JobSpec;
use super::stats::JobStats;
use super::steps;
use crate::policy::Worker;
use crate::values;

/// The number of messages that may be queued for a worker: a step, the reason of an end, and messages
/// about its group. If more are queued, the worker is not draining its stream.
const REPLIES: usize = 64;
/// Time that a worker may take to send its first message, with its initial parameters.
const HELLO_PATIENCE: Duration = Duration::from_secs(120);
/// The longest name of a host, in bytes.
const HOST_LEN: usize = 255;
/// The longest text about a worker's settings, in bytes.
const SETTINGS_LEN: usize = 255;

/// A job as sessions access it.
pub(super) struct Served {
    pub(super) spec: JobSpec,
    pub(super) token: Option<Vec<u8>>,
    pub(super) commands: Arc<Sender<Command>>,
    pub(super) stats: Arc<Mutex<JobStats>>,
    pub(super) holders: Holders,
}

/// The gRPC service.
pub(super) struct Service {
    jobs: Arc<BTreeMap<String, Arc<Served>>>,
    sessions: AtomicU64,
}

impl Service {
    pub(super) fn new(jobs: Arc<BTreeMap<String, Arc<Served>>>) -> Self {
        Self { jobs, sessions: AtomicU64::new(0) }
    }
}

#[tonic::async_trait]
impl ParameterServer for Service {
    type TrainStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn train(
        &self,
        request: Request<Streaming<WorkerMessage>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        // The credentials are checked before any message is read.
        let (name, job) = find(&self.jobs, JobCredentials::read(request.metadata()).as_ref())?;
        let (replies, receiver) = mpsc::channel(REPLIES);
        let session = ServerSession {
            name,
            job,
            names: request.extensions().get::<Peer>().and_then(Peer::names).cloned(),
            number: self.sessions.fetch_add(1, Ordering::Relaxed),
            messages: request.into_inner(),
        };
        tokio::spawn(async move {
            if let Err(status) = session.run(&replies).await {
                // If the worker has gone, no client receives the error.
                let _ = replies.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// The server's end of a session with a worker.
struct ServerSession {
    name: String,
    job: Arc<Served>,
    /// The names in the worker's certificate; `None` for a plain-text connection.
    names: Option<Names>,
    number: u64,
    messages: Streaming<WorkerMessage>,
}

impl ServerSession {
    /// Serves the session until the worker ends it or sends something invalid.
    async fn run(mut self, replies: &mpsc::Sender<Result<ServerMessage, Status>>) -> Result<(), Status> {
        let first = timeout(HELLO_PATIENCE, self.next()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the worker does not say who it is"))?;
        let Some(Message::Hello(hello)) = first? else {
            return Err(Status::invalid_argument("a session begins with who the worker is"));
        };
        self.check_host(&hello)?;
        let job = Arc::clone(&self.job);
        let (worker, initial) = check(&job.spec, &hello)?;
        let session = self.number;
        if let Some(names) = &self.names {
            job.holders.take(worker, session, names)?;
        }
        let end = self.serve(&job, worker, hello, initial, replies.clone()).await;
        job.holders.give_back(worker, session);
        if let Err(status) = &end {
            let reason = status.message();
            // A worker that ends normally closes its connection abruptly, too.
            if std::error::Error::source(status).is_some() {
                tracing::debug!(job = self.name, worker, reason, "a worker's connection has ended");
            } else {
                tracing::warn!(job = self.name, worker, reason, "a worker's session ends");
            }
        }
        end
    }

    async fn serve(
        &mut self,
        job: &Served,
        worker: Worker,
        hello: Hello,
        initial: Vec<f32>,
        replies: mpsc::Sender<Result<ServerMessage, Status>>,
    ) -> Result<(), Status> {
        let (session, host) = (self.number, Some(hello.host).filter(|host| !host.is_empty()));
        // The seed depends on the worker and not on the session, so that results do not depend on the order
        // of joining.
        let seed = u64::from(worker) << 32 | (hello.first & u64::from(u32::MAX));
        let replies = steps::encoded(steps::codec(&hello.parameters_codec)?, seed, replies);
        let (first, settings) = (hello.first, hello.settings);
        let newcomer = Newcomer { worker, session, first, initial, settings, host, replies };
        send(job, Command::Join(Box::new(newcomer)))?;
        let end = self.gradients(job, worker, usize::try_from(hello.length).unwrap_or(usize::MAX)).await;
        // The job's thread ends only when the server stops.
        let _ = job.commands.send(Command::Leave { worker, session });
        end
    }

    async fn gradients(&mut self, job: &Served, worker: Worker, length: usize) -> Result<(), Status> {
        let session = self.number;
        let mut parts = Assembly::new(length);
        while let Some(message) = self.next().await? {
            let (taken, done): (Taken, _) = oneshot::channel();
            let command = match message {
                Message::PushPart(part) => {
                    parts.add(part).await?;
                    continue;
                }
                Message::DropParts(_) => {
                    parts.clear();
                    continue;
                }
                Message::EndParts(EndParts { iteration, updates: pulled }) => {
                    let gradient = Gradient { iteration, pulled, values: Some(parts.take()?) };
                    Command::Push { worker, session, gradient, taken }
                }
                Message::Push(push) => {
                    parts.check_empty()?;
                    let gradient = decode(push, length).await?;
                    Command::Push { worker, session, gradient, taken }
                }
                Message::Urge(_) => Command::Urge { worker, session, taken },
                Message::Hello(_) => return Err(Status::invalid_argument("a session has one worker")),
                Message::Ready(Ready { iteration, updates: pulled }) => {
                    parts.check_empty()?;
                    let gradient = Gradient { iteration, pulled, values: None };
                    Command::Push { worker, session, gradient, taken }
                }
                Message::FabricFailed(FabricFailed { group, reason }) => {
                    Command::FabricFailed { worker, session, group, reason, taken }
                }
            };
            send(job, command)?;
            if done.await.is_err() {
                // The job has ended the session, and has sent the reason to the worker.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Checks that the worker may take part in reductions as the host that it names.
    fn check_host(&self, hello: &Hello) -> Result<(), Status> {
        match &self.names {
            Some(names) if !hello.host.is_empty() => names.check_host(&hello.host).map_err(|error| {
                tracing::warn!(job = self.name, worker = hello.worker, %error, "denied a worker");
                Status::permission_denied(error.to_string())
            }),
            _ => Ok(()),
        }
    }

    /// Returns the next message; `None` if the worker has ended the stream.
    async fn next(&mut self) -> Result<Option<Message>, Status> {
        let Some(message) = self.messages.message().await? else { return Ok(None) };
        match message.message {
            Some(message) => Ok(Some(message)),
            None => Err(Status::invalid_argument("a message that this version does not know")),
        }
    }
}

/// Returns the job in which a worker may take part. A refused worker does not learn the reason.
fn find(
    jobs: &BTreeMap<String, Arc<Served>>,
    credentials: Option<&JobCredentials>,
) -> Result<(String, Arc<Served>), Status> {
    let credentials = credentials.ok_or_else(|| {
        Status::permission_denied(
            "the call has no job and token in its metadata: a worker of another version?",
        )
    })?;
    let refused = || {
        let said =
            format!("there is no job {:?} with this token: compare both with the server's", credentials.job);
        Status::permission_denied(said)
    };
    let job = jobs.get(&credentials.job).ok_or_else(refused)?;
    match &job.token {
        Some(token) if !bool::from(token.ct_eq(&credentials.token)) => Err(refused()),
        _ => Ok((credentials.job.clone(), Arc::clone(job))),
    }
}

fn check(spec: &JobSpec, hello: &Hello) -> Result<(Worker, Vec<f32>), Status> {
    let workers = spec.workers.get();
    let worker = Worker::try_from(hello.worker).ok().filter(|worker| *worker < workers);
    let Some(worker) = worker else {
        let said = format!("no worker {} in job {:?}: it has 0 to {}", hello.worker, spec.name, workers - 1);
        return Err(Status::invalid_argument(said));
    };
    if hello.workers != 0 && hello.workers != u32::from(workers) {
        let said = format!(
            "worker {worker} was told that {} workers share the data, and job {:?} has {workers}: start it for as many",
            hello.workers, spec.name
        );
        return Err(Status::invalid_argument(said));
    }
    if hello.length == 0 || hello.length > spec.max_parameters {
        let said = format!("{} parameters; 1 to {} are possible", hello.length, spec.max_parameters);
        return Err(Status::invalid_argument(said));
    }
    if hello.host.len() > HOST_LEN {
        return Err(Status::invalid_argument(format!("the host's name has more than {HOST_LEN} bytes")));
    }
    if hello.settings.len() > SETTINGS_LEN {
        return Err(Status::invalid_argument(format!(
            "the worker's settings have more than {SETTINGS_LEN} bytes"
        )));
    }
    let initial = values::decode(&hello.initial).filter(|values| values.len() as u64 == hello.length);
    let Some(initial) = initial else {
        return Err(Status::invalid_argument("the initial parameters are not as many as announced"));
    };
    if let Some(place) = initial.iter().position(|value| !value.is_finite()) {
        let said = format!("the initial parameter {place} is {}: all have to be finite", initial[place]);
        return Err(Status::invalid_argument(said));
    }
    Ok((worker, initial))
}

/// Decodes a gradient; an error ends only this worker's session. The decoding runs on a blocking
/// thread, because a large gradient would delay the threads that all sessions share.
async fn decode(push: Push, length: usize) -> Result<Gradient, Status> {
    let Push { iteration, updates: pulled, code } = push;
    let decoded = tokio::task::spawn_blocking(move || tributary_codec::decode(&code, length)).await;
    match decoded {
        Ok(Ok(values)) => Ok(Gradient { iteration, pulled, values: Some(values) }),
        Ok(Err(error)) => {
            Err(Status::invalid_argument(format!("gradient of iteration {iteration}: {error}")))
        }
        Err(_) => Err(Status::internal("the server is stopping")),
    }
}

fn send(job: &Served, command: Command) -> Result<(), Status> {
    job.commands.send(command).map_err(|_| Status::unavailable("the parameter server is stopping"))
}
