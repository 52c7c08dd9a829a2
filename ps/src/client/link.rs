//! The session with one server, opened again whenever it breaks.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{
    Hello, Push, ServerMessage, Step as StepMessage, Urge, WorkerMessage, server_message,
};

use super::backoff::Backoff;
use super::{ClientError, ClientOptions, Step};
use crate::policy::Worker;
use crate::values;

/// Messages that may wait to be sent: a push and an urge, twice.
const MESSAGES: usize = 4;

/// The session with one server.
pub(super) struct Link {
    endpoint: Endpoint,
    hello: Hello,
    range: Range<usize>,
    patience: Duration,
    session: Option<Session>,
    /// What the next push has to say.
    iteration: u64,
    updates: u64,
}

/// What can go wrong in one try.
enum Trouble {
    /// It may be better next time.
    Passing(String),
    Lasting(ClientError),
}

struct Session {
    messages: mpsc::Sender<WorkerMessage>,
    steps: Streaming<ServerMessage>,
    /// Whether the server has sent a step.
    good: bool,
}

impl Link {
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
        Self {
            endpoint: options.servers[server].clone(),
            hello,
            range,
            patience: options.patience,
            session: None,
            iteration: 0,
            updates: 0,
        }
    }

    /// Which parameters the server holds.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Sends a gradient, if there is one, and waits for the step that answers it, over as many sessions as it
    /// takes. `released` says that another server has let this worker go.
    pub(super) async fn exchange(
        &mut self,
        code: Option<Vec<u8>>,
        mut released: watch::Receiver<bool>,
    ) -> Result<Step, ClientError> {
        let (iteration, mut backoff, mut away) = (self.iteration, Backoff::new(), Instant::now());
        loop {
            match self.attempt(iteration, code.as_deref(), &mut released).await {
                Ok(step) => return Ok(step),
                Err(Trouble::Lasting(error)) => return Err(error),
                // The first trouble of a session that was good is when the server went away.
                Err(Trouble::Passing(_)) if self.was_good() => away = Instant::now(),
                Err(Trouble::Passing(reason)) if away.elapsed() > self.patience => {
                    return Err(ClientError::Away { server: self.server(), patience: self.patience, reason });
                }
                Err(Trouble::Passing(reason)) => {
                    tracing::debug!(server = self.server(), reason, "a parameter server is away");
                }
            }
            self.session = None;
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    async fn attempt(
        &mut self,
        iteration: u64,
        code: Option<&[u8]>,
        released: &mut watch::Receiver<bool>,
    ) -> Result<Step, Trouble> {
        if self.session.is_none() {
            let step = self.open().await?;
            // Anything but the same iteration: the gradient was used, or the server has gone back to its
            // checkpoint, and what it was computed from is lost.
            if code.is_none() || step.iteration != iteration {
                return Ok(step);
            }
        }
        if let Some(code) = code {
            let push = Push { iteration, updates: self.updates, code: code.to_vec() };
            self.send(Message::Push(push)).await?;
        }
        self.receive(Some(released)).await
    }

    /// Opens a session and waits until the worker may start.
    async fn open(&mut self) -> Result<Step, Trouble> {
        let channel = self.endpoint.connect().await;
        let channel = channel.map_err(|error| Trouble::Passing(causes(&error)))?;
        let most = self.range.len().saturating_mul(size_of::<f32>()).saturating_add(super::MESSAGE_ROOM);
        let mut client = ParameterServerClient::new(channel)
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX);
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let opened = client.train(ReceiverStream::new(receiver)).await;
        let steps = opened.map_err(|status| self.judge(status))?.into_inner();
        self.session = Some(Session { messages, steps, good: false });
        self.send(Message::Hello(self.hello.clone())).await?;
        self.receive(None).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Trouble> {
        let message = WorkerMessage { message: Some(message) };
        let sent = match &self.session {
            Some(session) => session.messages.send(message).await.is_ok(),
            None => false,
        };
        // If the server has ended the session, what it said about that is still to be read.
        if sent { Ok(()) } else { self.receive(None).await.map(drop) }
    }

    /// The next step. Once another server has released the worker, this one is told.
    async fn receive(&mut self, mut released: Option<&mut watch::Receiver<bool>>) -> Result<Step, Trouble> {
        loop {
            let Some(session) = &mut self.session else {
                return Err(Trouble::Passing("the session has ended".to_owned()));
            };
            let elsewhere = async {
                match &mut released {
                    Some(released) => released.wait_for(|released| *released).await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = session.steps.message() => match message {
                    Ok(Some(ServerMessage { message: Some(server_message::Message::Step(step)) })) => {
                        return self.accept(&step);
                    }
                    Ok(Some(_)) => continue,
                    Ok(None) => return Err(Trouble::Passing("the server has ended the session".to_owned())),
                    Err(status) => return Err(self.judge(status)),
                },
                _ = elsewhere => {}
            }
            released = None;
            // The session's end shows when its next message is read.
            let _ = session.messages.send(WorkerMessage { message: Some(Message::Urge(Urge {})) }).await;
        }
    }

    fn accept(&mut self, step: &StepMessage) -> Result<Step, Trouble> {
        let expected = self.range.len();
        let parameters = values::decode(&step.parameters).filter(|values| values.len() == expected);
        let Some(parameters) = parameters else {
            let got = step.parameters.len() / size_of::<f32>();
            return Err(Trouble::Lasting(ClientError::Step { server: self.server(), expected, got }));
        };
        (self.iteration, self.updates) = (step.iteration, step.updates);
        if let Some(session) = &mut self.session {
            session.good = true;
        }
        let released_by = Worker::try_from(step.released_by).unwrap_or(Worker::MAX);
        Ok(Step { iteration: step.iteration, parameters, released_by, in_group: step.in_group })
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
        self.endpoint.uri().authority().map_or_else(String::new, ToString::to_string)
    }
}

/// An error with what is behind it: a transport's own words say little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
