//! The sessions with one server; when a session has broken, the task opens the next one.
//!
//! A separate task receives the server's messages, so that the worker can contribute zeros on request
//! while a gradient is being computed.

mod handle;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tributary_api::JobCredentials;
use tributary_api::agent::Moments;
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{DropParts, Hello, Ready, WorkerMessage};
use tributary_codec::Kind;
use tributary_transport::{ConnectError, Remote};

use super::agreement::Agreement;
use super::backoff::Backoff;
use super::encoder::Encoder;
use super::error::ClientError;
use super::exchange::{Exchange, HandIn, Request};
use super::groups::Groups;
use super::options::{ClientOptions, Step};
use super::outgoing::Outgoing;
use super::session::{ClientSession, Heard, Trouble, hear};
use super::waiting::Waiting;
use crate::changes::Known;
use crate::values;

/// The number of messages that may be queued for sending: a gradient or its parts, an urge and a
/// failure.
const MESSAGES: usize = 4;

/// The most bytes of a message in addition to the parameters.
const MESSAGE_ROOM: usize = 64 << 10;

/// The state of the task.
pub(super) struct ServerTask {
    remote: Remote,
    credentials: JobCredentials,
    hello: Hello,
    length: usize,
    agreement: Arc<Agreement>,
    patience: Duration,
    waits: Option<mpsc::Sender<Waiting>>,
    encoder: Encoder,
    session: Option<ClientSession>,
    groups: Groups,
    /// The gradient that is being handed in.
    outgoing: Option<Outgoing>,
    /// A step that arrived when no caller waited for it.
    unclaimed: Option<Step>,
    /// The iteration of the next gradient.
    iteration: u64,
    updates: u64,
    /// The reduction to which the next gradient may go; 0 means none.
    group: u64,
    /// The next attempt to join again, if the session has ended while the caller computes. `None` if the
    /// worker does not join again before the next gradient.
    rejoin: Option<Rejoin>,
}

/// The time of the next attempt to join again, and the waits after it.
struct Rejoin {
    at: tokio::time::Instant,
    backoff: Backoff,
}

impl Rejoin {
    fn soon() -> Self {
        Self { at: tokio::time::Instant::now(), backoff: Backoff::new() }
    }
}

impl ServerTask {
    /// Creates the task's state for one of the servers in the options and its range of the parameters.
    pub(super) fn new(
        options: &ClientOptions,
        server: usize,
        range: &Range<usize>,
        initial: &[f32],
        agreement: Arc<Agreement>,
    ) -> Self {
        let credentials = JobCredentials { job: options.job.clone(), token: options.token.clone() };
        let hello = Hello {
            worker: options.worker.into(),
            first: range.start as u64,
            length: range.len() as u64,
            initial: values::encode(initial),
            host: options.fabric.as_ref().map(|fabric| fabric.host().to_owned()).unwrap_or_default(),
            parameters_codec: match options.parameters_codec {
                Kind::None => String::new(),
                codec => codec.to_string(),
            },
            workers: options.workers.map_or(0, |workers| workers.get().into()),
            settings: options.settings.clone(),
        };
        // The residual of error feedback belongs to a range, so each range has its own encoder.
        let seed = u64::from(options.worker) << 32 | server as u64;
        Self {
            remote: options.servers[server].clone(),
            credentials,
            hello,
            length: range.len(),
            agreement,
            patience: options.patience,
            waits: options.waits.clone(),
            encoder: Encoder::new(options.codec.codec(seed), range.len()),
            session: None,
            groups: Groups::new(options.fabric.clone(), range.len()),
            outgoing: None,
            unclaimed: None,
            iteration: 0,
            updates: 0,
            group: 0,
            rejoin: None,
        }
    }

    /// Handles requests, and receives the server's messages at the same time. If the session ends, the
    /// worker joins again without waiting for the next request. Otherwise a long computation could last
    /// longer than a restarted server waits for its workers.
    pub(super) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        loop {
            let (mut released, rejoin) = (None, self.rejoin.as_ref().map(|rejoin| rejoin.at));
            tokio::select! {
                biased;
                request = requests.recv() => {
                    match request {
                        None => return,
                        Some(Request::Part { first, values }) => self.part(first, &values).await,
                        Some(Request::Drop(done)) => {
                            self.drop_parts().await;
                            let _ = done.send(());
                        }
                        Some(Request::Exchange(exchange)) => self.answer(exchange).await,
                    }
                }
                () = until(rejoin) => self.join_again().await,
                heard = hear(&mut self.session, &mut self.groups, &mut released) => {
                    let (computing, pulled) = (self.iteration, self.updates);
                    match self.handle(heard).await {
                        Ok(None) => {}
                        // This step repeats the iteration that the caller is computing. The caller computes
                        // with the earlier parameters.
                        Ok(Some(step)) if step.iteration == computing => self.updates = pulled,
                        Ok(Some(step)) => self.unclaimed = Some(step),
                        Err(trouble) => self.lose_session(&trouble),
                    }
                }
            }
        }
    }

    /// Ends the session while the caller computes. A lasting error occurs again when the next gradient
    /// needs a session.
    fn lose_session(&mut self, trouble: &Trouble) {
        self.hang_up();
        self.rejoin = matches!(trouble, Trouble::Passing(_)).then(Rejoin::soon);
    }

    /// Joins again while the caller computes. Does not wait for the server's step, which may take long.
    async fn join_again(&mut self) {
        let Some(Rejoin { mut backoff, .. }) = self.rejoin.take() else { return };
        if let Err(Trouble::Passing(_)) = self.dial().await {
            let at = tokio::time::Instant::now() + backoff.wait();
            self.rejoin = Some(Rejoin { at, backoff });
        }
    }

    async fn answer(&mut self, Exchange { hand_in, released, answer, _turn }: Exchange) {
        self.rejoin = None;
        let outcome = match self.unclaimed.take() {
            // The caller has not seen this step and computed its gradient from older parameters.
            Some(step) => Ok(step),
            None => self.exchange(hand_in, released).await,
        };
        self.outgoing = None;
        if let Err(Ok(step)) = answer.send(outcome) {
            self.unclaimed = Some(step);
        }
    }

    /// Adds a part of the next gradient. The part is sent at once if there is a session and the gradient
    /// does not go to a reduction. Otherwise it is sent when the gradient is handed in. If the part cannot
    /// be encoded, the caller gets the error at that time.
    async fn part(&mut self, first: usize, values: &[f32]) {
        if self.unclaimed.is_some() {
            return;
        }
        let (iteration, length) = (self.iteration, self.length);
        self.outgoing.get_or_insert_with(|| Outgoing::begin(iteration, length)).add(first, values);
        if self.has_joined() && !self.groups.has(self.group) {
            let _ = self.push().await;
        }
    }

    /// Drops the parts of an unfinished gradient.
    async fn drop_parts(&mut self) {
        let Some(outgoing) = self.outgoing.take() else { return };
        let any_sent = outgoing.any_sent();
        outgoing.undo(&mut self.encoder);
        if any_sent {
            self.send(Message::DropParts(DropParts {})).await;
        }
    }

    async fn exchange(
        &mut self,
        hand_in: HandIn,
        mut released: watch::Receiver<bool>,
    ) -> Result<Step, ClientError> {
        match hand_in {
            HandIn::Nothing => self.outgoing = None,
            HandIn::Whole(gradient) => self.outgoing = Some(Outgoing::whole(self.iteration, gradient)),
            HandIn::Parts => self.outgoing.iter_mut().for_each(Outgoing::end),
        }
        let (mut backoff, mut unreachable_since) = (Backoff::new(), Instant::now());
        let (mut said, mut moments) = (String::new(), Moments::default());
        loop {
            let reason = match self.attempt(&mut released).await {
                Ok(step) => return Ok(step),
                Err(Trouble::Lasting(error)) => {
                    self.hang_up();
                    return Err(error);
                }
                Err(Trouble::Passing(reason)) => reason,
            };
            // The server counts as unreachable since the first error after a working session.
            let was_good = self.has_joined();
            if was_good {
                unreachable_since = Instant::now();
            }
            let patience = self.patience;
            self.hang_up();
            if !was_good && unreachable_since.elapsed() > patience {
                return Err(ClientError::Unreachable { server: self.server(), patience, reason });
            }
            // Each reason is logged once, not at each attempt.
            if reason != said {
                tracing::warn!(
                    server = self.server(),
                    reason,
                    ?patience,
                    "a parameter server is unreachable"
                );
                said = reason;
            }
            if moments.is_one(unreachable_since.elapsed()) {
                self.tell(Waiting::unreachable(&self.server(), &said, unreachable_since.elapsed()));
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Ends the session, and this worker's part in the session's groups.
    fn hang_up(&mut self) {
        self.session = None;
        self.groups.clear();
        self.outgoing.iter_mut().for_each(Outgoing::go_back);
    }

    async fn attempt(&mut self, released: &mut watch::Receiver<bool>) -> Result<Step, Trouble> {
        if self.session.is_none() {
            self.dial().await?;
        }
        if !self.has_joined() {
            let step = self.step(None).await?;
            // If the iteration differs, the server has used the gradient, or it has restarted from its
            // checkpoint and lost the parameters from which the gradient was computed.
            if self.outgoing.as_ref().is_none_or(|outgoing| outgoing.iteration != step.iteration) {
                return Ok(step);
            }
        }
        if let Some(outgoing) = &self.outgoing {
            if self.groups.has(self.group) && !outgoing.any_sent() {
                let ready = Ready { iteration: outgoing.iteration, updates: self.updates };
                self.send(Message::Ready(ready)).await;
            } else {
                self.push().await?;
            }
        }
        self.step(Some(released)).await
    }

    /// Pushes all values of the gradient that are present and not sent yet.
    async fn push(&mut self) -> Result<(), Trouble> {
        while let Some(outgoing) = &mut self.outgoing {
            let next = outgoing.next(&mut self.encoder, self.updates);
            let Some(message) = next.map_err(|error| Trouble::Lasting(error.into()))? else { break };
            self.send(message).await;
        }
        Ok(())
    }

    /// Opens a session. The worker has joined when the server sends the session's first step.
    async fn dial(&mut self) -> Result<(), Trouble> {
        let channel = self.remote.connect().await.map_err(|error| match error {
            ConnectError::Unreachable { reason, .. } => Trouble::Passing(reason),
            ConnectError::NoDescriptor { .. } => Trouble::Passing(error.to_string()),
            // A certificate error does not disappear with time.
            error => Trouble::Lasting(ClientError::NoTrust(error)),
        })?;
        let most = self.length.saturating_mul(size_of::<f32>()).saturating_add(MESSAGE_ROOM);
        let mut client = ParameterServerClient::new(channel)
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX);
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let opened = client.train(self.credentials.onto(ReceiverStream::new(receiver))).await;
        let told = opened.map_err(|status| self.judge(status))?.into_inner();
        self.session = Some(ClientSession { messages, told, good: false, known: Known::default() });
        self.send(Message::Hello(self.hello.clone())).await;
        Ok(())
    }

    /// Sends a message. If the server has ended the session, the message is dropped; the reason of the end
    /// is received later.
    async fn send(&mut self, message: Message) {
        if let Some(session) = &self.session {
            let _ = session.messages.send(WorkerMessage { message: Some(message) }).await;
        }
    }

    /// Waits for the next step. If another server releases the worker meanwhile, notifies this server.
    async fn step(&mut self, mut released: Option<&mut watch::Receiver<bool>>) -> Result<Step, Trouble> {
        loop {
            if self.session.is_none() {
                return Err(Trouble::Passing("the session has ended".to_owned()));
            }
            let heard = hear(&mut self.session, &mut self.groups, &mut released).await;
            if matches!(heard, Heard::Released) {
                released = None;
            }
            if let Some(step) = self.handle(heard).await? {
                return Ok(step);
            }
        }
    }

    fn tell(&self, waiting: Waiting) {
        if let Some(waits) = &self.waits {
            // If the caller is not draining the channel, it gets a later report.
            let _ = waits.try_send(waiting);
        }
    }

    /// Returns true if the server has sent a step in this session.
    fn has_joined(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.good)
    }

    fn server(&self) -> String {
        self.remote.address().to_owned()
    }
}

/// Waits until `time`, or forever if it is `None`.
async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
