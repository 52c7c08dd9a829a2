//! The sessions with one server, each opened when the last one has broken.
//!
//! A task of its own reads what the server sends: zeros that it asks for go out while a gradient is being
//! computed.

mod attend;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{Hello, Push, Ready, WorkerMessage};
use tributary_codec::Codec;
use tributary_transport::{ConnectError, Remote};

use super::backoff::Backoff;
use super::groups::Groups;
use super::session::{Heard, Session, Trouble, hear};
use super::{ClientError, ClientOptions, Step};
use crate::values;

/// Messages that may wait to be sent: a gradient, its code, an urge and a failure.
const MESSAGES: usize = 4;

/// A gradient to hand in, or none to join, and where the step that answers it goes.
pub(super) struct Request {
    pub(super) gradient: Option<Arc<[f32]>>,
    /// Whether another server has let this worker go.
    pub(super) released: watch::Receiver<bool>,
    pub(super) answer: oneshot::Sender<Result<Step, ClientError>>,
}

/// A gradient that no step has answered yet.
struct Waiting {
    iteration: u64,
    gradient: Arc<[f32]>,
    /// It is encoded once at most: error feedback must not count it twice.
    code: Option<Vec<u8>>,
}

/// What the task knows.
pub(super) struct Talk {
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

impl Talk {
    /// With one server of those in the options, about a range of the parameters.
    pub(super) fn new(options: &ClientOptions, server: usize, range: &Range<usize>, initial: &[f32]) -> Self {
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
        Self {
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
        }
    }

    /// Does what it is asked for, and listens to the server meanwhile.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
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
        let iteration = waiting.iteration;
        if let Some(session) = &mut self.session {
            session.pushed = Some(iteration);
        }
        let push = Push { iteration, updates: self.updates, code };
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
        self.session = Some(Session { messages, told, good: false, pushed: None });
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

    fn was_good(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.good)
    }

    fn server(&self) -> String {
        self.remote.address().to_owned()
    }
}
