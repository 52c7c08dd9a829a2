//! The session with one server, opened again whenever it breaks.
//!
//! A task of its own reads what the server sends: zeros that it asks for go out while a gradient is being
//! computed.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::server_message::Message as Told;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{
    Contribute, FabricFailed, Hello, Push, Ready, ServerMessage, Step as StepMessage, Urge, WorkerMessage,
};
use tributary_codec::Codec;
use tributary_transport::{ConnectError, Remote};

use super::backoff::Backoff;
use super::fabric::Contribution;
use super::groups::Groups;
use super::{ClientError, ClientOptions, Step};
use crate::policy::Worker;
use crate::values;

/// Messages that may wait to be sent: a gradient, its code, an urge and a failure.
const MESSAGES: usize = 4;

/// A server's range of the parameters, and the task that talks to it. Dropping it ends the session.
pub(super) struct Link {
    range: Range<usize>,
    requests: mpsc::Sender<Request>,
    task: tokio::task::JoinHandle<()>,
}

/// A gradient to hand in, or none to join, and where the step that answers it goes.
struct Request {
    gradient: Option<Arc<[f32]>>,
    /// Whether another server has let this worker go.
    released: watch::Receiver<bool>,
    answer: oneshot::Sender<Result<Step, ClientError>>,
}

impl Link {
    /// Starts the task.
    pub(super) fn new(options: &ClientOptions, server: usize, range: Range<usize>, initial: &[f32]) -> Self {
        let hello = Hello {
            job: options.job.clone(),
            token: options.token.clone(),
            worker: options.worker.into(),
            first: range.start as u64,
            length: range.len() as u64,
            initial: values::encode(initial),
            host: options.fabric.as_ref().map(|fabric| fabric.host().to_owned()).unwrap_or_default(),
        };
        // What error feedback owes belongs to a range, so each has its own encoder.
        let seed = u64::from(options.worker) << 32 | server as u64;
        let talk = Talk {
            remote: options.servers[server].clone(),
            hello,
            length: range.len(),
            patience: options.patience,
            codec: options.codec.codec(seed),
            session: None,
            groups: Groups::new(options.fabric.clone(), range.len()),
            waiting: None,
            unclaimed: None,
            iteration: 0,
            updates: 0,
            group: 0,
        };
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

/// What can go wrong in one try.
enum Trouble {
    /// It may be better next time.
    Passing(String),
    Lasting(ClientError),
}

struct Session {
    messages: mpsc::Sender<WorkerMessage>,
    told: Streaming<ServerMessage>,
    /// Whether the server has sent a step.
    good: bool,
}

/// A gradient that no step has answered yet.
struct Waiting {
    iteration: u64,
    gradient: Arc<[f32]>,
    /// It is encoded once at most: error feedback must not count it twice.
    code: Option<Vec<u8>>,
}

/// What the task knows.
struct Talk {
    remote: Remote,
    hello: Hello,
    length: usize,
    patience: Duration,
    codec: Box<dyn Codec>,
    session: Option<Session>,
    groups: Groups,
    waiting: Option<Waiting>,
    /// A step whose caller has gone before it came.
    unclaimed: Option<Step>,
    /// What the next push has to say.
    iteration: u64,
    updates: u64,
    /// The reduction that the next gradient may go to; 0: none.
    group: u64,
}

/// What there was to listen to.
enum Heard {
    Told(Box<Result<Option<ServerMessage>, Status>>),
    Failure(u64, String),
    Released,
}

impl Talk {
    /// Does what it is asked for, and listens to the server meanwhile.
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let mut released = None;
            tokio::select! {
                biased;
                request = requests.recv() => {
                    let Some(Request { gradient, released, answer }) = request else { return };
                    let outcome = match self.unclaimed.take() {
                        Some(step) => Ok(step),
                        None => self.exchange(gradient, released).await,
                    };
                    if let Err(Ok(step)) = answer.send(outcome) {
                        self.unclaimed = Some(step);
                    }
                }
                heard = hear(&mut self.session, &mut self.groups, &mut released) => {
                    // What is wrong with the session shows again when the next gradient needs one.
                    if self.attend(heard).await.is_err() {
                        self.hang_up();
                    }
                }
            }
        }
    }

    async fn exchange(
        &mut self,
        gradient: Option<Arc<[f32]>>,
        mut released: watch::Receiver<bool>,
    ) -> Result<Step, ClientError> {
        let iteration = self.iteration;
        self.waiting = gradient.map(|gradient| Waiting { iteration, gradient, code: None });
        let (mut backoff, mut away) = (Backoff::new(), Instant::now());
        loop {
            match self.attempt(&mut released).await {
                Ok(step) => {
                    self.waiting = None;
                    return Ok(step);
                }
                Err(Trouble::Lasting(error)) => {
                    self.hang_up();
                    return Err(error);
                }
                // The first trouble of a session that was good is when the server went away.
                Err(Trouble::Passing(_)) if self.was_good() => away = Instant::now(),
                Err(Trouble::Passing(reason)) if away.elapsed() > self.patience => {
                    self.hang_up();
                    return Err(ClientError::Away { server: self.server(), patience: self.patience, reason });
                }
                Err(Trouble::Passing(reason)) => {
                    tracing::debug!(server = self.server(), reason, "a parameter server is away");
                }
            }
            self.hang_up();
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Ends the session, and with it the part in its groups.
    fn hang_up(&mut self) {
        self.session = None;
        self.groups.clear();
    }

    async fn attempt(&mut self, released: &mut watch::Receiver<bool>) -> Result<Step, Trouble> {
        if self.session.is_none() {
            let step = self.open().await?;
            // Anything but the same iteration: the gradient was used, or the server has gone back to its
            // checkpoint, and what it was computed from is lost.
            if self.waiting.as_ref().is_none_or(|waiting| waiting.iteration != step.iteration) {
                return Ok(step);
            }
        }
        if let Some(Waiting { iteration, .. }) = self.waiting {
            if self.groups.has(self.group) {
                self.send(Message::Ready(Ready { iteration, updates: self.updates })).await;
            } else {
                self.push().await?;
            }
        }
        self.step(Some(released)).await
    }

    /// Pushes the gradient itself.
    async fn push(&mut self) -> Result<(), Trouble> {
        let Some(waiting) = &mut self.waiting else { return Ok(()) };
        let code = match waiting.code.clone() {
            Some(code) => code,
            None => {
                let code = self.codec.encode(&waiting.gradient);
                let code = code.map_err(|error| Trouble::Lasting(error.into()))?;
                waiting.code.insert(code).clone()
            }
        };
        let push = Push { iteration: waiting.iteration, updates: self.updates, code };
        self.send(Message::Push(push)).await;
        Ok(())
    }

    /// Opens a session and waits until the worker may start.
    async fn open(&mut self) -> Result<Step, Trouble> {
        let channel = self.remote.connect().await.map_err(|error| match error {
            ConnectError::Unreachable { reason, .. } => Trouble::Passing(reason),
            // A certificate does not get better by waiting.
            error => Trouble::Lasting(ClientError::NoTrust(error)),
        })?;
        let most = self.length.saturating_mul(size_of::<f32>()).saturating_add(super::MESSAGE_ROOM);
        let mut client = ParameterServerClient::new(channel)
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX);
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let opened = client.train(ReceiverStream::new(receiver)).await;
        let told = opened.map_err(|status| self.judge(status))?.into_inner();
        self.session = Some(Session { messages, told, good: false });
        self.send(Message::Hello(self.hello.clone())).await;
        self.step(None).await
    }

    /// Sends a message. If the server has ended the session, what it said about that is still to be read.
    async fn send(&mut self, message: Message) {
        if let Some(session) = &self.session {
            let _ = session.messages.send(WorkerMessage { message: Some(message) }).await;
        }
    }

    /// The next step. Once another server has released the worker, this one is told.
    async fn step(&mut self, mut released: Option<&mut watch::Receiver<bool>>) -> Result<Step, Trouble> {
        loop {
            if self.session.is_none() {
                return Err(Trouble::Passing("the session has ended".to_owned()));
            }
            let heard = hear(&mut self.session, &mut self.groups, &mut released).await;
            if matches!(heard, Heard::Released) {
                released = None;
            }
            if let Some(step) = self.attend(heard).await? {
                return Ok(step);
            }
        }
    }

    /// Does what the server asks for; its step, if it is one.
    async fn attend(&mut self, heard: Heard) -> Result<Option<Step>, Trouble> {
        let told = match heard {
            Heard::Told(told) => told.map_err(|status| self.judge(status))?,
            Heard::Failure(group, reason) => {
                tracing::warn!(server = self.server(), group, reason, "this host goes on without the fabric");
                self.send(Message::FabricFailed(FabricFailed { group, reason })).await;
                return Ok(None);
            }
            Heard::Released => {
                self.send(Message::Urge(Urge {})).await;
                return Ok(None);
            }
        };
        let told = told.ok_or_else(|| Trouble::Passing("the server has ended the session".to_owned()))?;
        match told.message {
            Some(Told::Step(step)) => return self.accept(&step).map(Some),
            Some(Told::JoinGroup(join)) => self.groups.join(join),
            Some(Told::Contribute(contribute)) => self.contribute(&contribute).await,
            Some(Told::PushPlain(plain)) => {
                if self.waiting.as_ref().is_some_and(|waiting| waiting.iteration == plain.iteration) {
                    self.push().await?;
                }
            }
            Some(Told::LeaveGroup(leave)) => self.groups.leave(leave.group),
            None => tracing::debug!(server = self.server(), "a message that this version does not know"),
        }
        Ok(None)
    }

    async fn contribute(&mut self, contribute: &Contribute) {
        let Contribute { group, round, weight } = *contribute;
        let contribution = match (NonZeroU32::new(weight), &self.waiting) {
            (None, _) => Contribution::Zeros,
            (Some(weight), Some(waiting)) => {
                Contribution::Gradient { values: Arc::clone(&waiting.gradient), weight }
            }
            (Some(_), None) => {
                self.groups.leave(group);
                let reason = "a gradient was asked for where none waits".to_owned();
                return self.send(Message::FabricFailed(FabricFailed { group, reason })).await;
            }
        };
        self.groups.contribute(group, round, contribution);
    }

    fn accept(&mut self, step: &StepMessage) -> Result<Step, Trouble> {
        let expected = self.length;
        let parameters = values::decode(&step.parameters).filter(|values| values.len() == expected);
        let Some(parameters) = parameters else {
            let got = step.parameters.len() / size_of::<f32>();
            return Err(Trouble::Lasting(ClientError::Step { server: self.server(), expected, got }));
        };
        (self.iteration, self.updates, self.group) = (step.iteration, step.updates, step.group);
        if let Some(session) = &mut self.session {
            session.good = true;
        }
        let released_by = Worker::try_from(step.released_by).unwrap_or(Worker::MAX);
        let StepMessage { iteration, updates, in_group, .. } = *step;
        Ok(Step { iteration, updates, parameters, released_by, in_group })
    }

    fn was_good(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.good)
    }

    /// Whether a status is about this worker or about the way to the server.
    fn judge(&self, status: Status) -> Trouble {
        match status.code() {
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Unimplemented => Trouble::Lasting(ClientError::Refused { server: self.server(), status }),
            _ => Trouble::Passing(status.message().to_owned()),
        }
    }

    fn server(&self) -> String {
        self.remote.address().to_owned()
    }
}

/// Waits for the server, for the end of a part in a group, and for another server that lets the worker go. May be
/// cancelled.
async fn hear(
    session: &mut Option<Session>,
    groups: &mut Groups,
    released: &mut Option<&mut watch::Receiver<bool>>,
) -> Heard {
    let told = async {
        match session {
            Some(session) => session.told.message().await,
            None => std::future::pending().await,
        }
    };
    let elsewhere = async {
        let known = match released {
            Some(released) => released.wait_for(|released| *released).await.is_ok(),
            None => false,
        };
        if !known {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        told = told => Heard::Told(Box::new(told)),
        (group, reason) = groups.failure() => Heard::Failure(group, reason),
        () = elsewhere => Heard::Released,
    }
}
