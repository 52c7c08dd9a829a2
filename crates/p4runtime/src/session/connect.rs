//! Connects to a switch, and waits until the switch has answered the session's arbitration request.

use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::error::{is_transport, words};
use super::stream::{self, Reader, States};
use super::{Session, SessionError, Target, to_wire};
use crate::p4::v1 as message;
use crate::p4::v1::p4_runtime_client::P4RuntimeClient;
use crate::p4::v1::stream_message_request::Update;

/// The largest message that is accepted. BMv2 answers a wildcard read in a single message of any
/// length.
const MAX_MESSAGE: usize = 256 << 20;
/// The maximum number of bytes of headers that are accepted. If every update of a batch fails, a
/// thousand error messages come back in a trailer.
const MAX_HEADERS: u32 = 2 << 20;
/// The number of packets from the switch that are buffered for a slow subscriber. Beyond it, the
/// oldest are lost.
const NOTIFICATIONS_KEPT: usize = 1024;
/// The maximum number of packets to the switch that wait for the connection.
const OUTGOING_KEPT: usize = 64;
/// The first pause between two attempts to connect.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// The reason of an attempt that neither succeeded nor failed before the deadline.
const SILENT: &str = "it neither accepts nor refuses a connection, or says nothing on it";

impl Session {
    /// Connects, and requests to become the switch's primary with this election id.
    ///
    /// The session with the largest election id is primary; 0 never is. If the switch does not
    /// accept the connection yet, this retries until the deadline. The new session may not be
    /// primary: see [`Session::mastership`].
    pub async fn connect(target: Target, election_id: u128, deadline: Instant) -> Result<Self, SessionError> {
        let endpoint = endpoint(&target)?;
        let mut last = Attempt::silent();
        let attempts = async {
            let mut pause = RETRY_FIRST;
            loop {
                match attempt(&endpoint, &target, election_id).await {
                    Ok(session) => return Ok(session),
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Passing(failed)) => {
                        tracing::debug!(switch = target.name, reason = failed.words, "no session yet");
                        last = failed;
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_LAST);
            }
        };
        match tokio::time::timeout_at(deadline, attempts).await {
            Ok(outcome) => outcome,
            Err(_) => Err(unreachable(target, last)),
        }
    }

    /// Connects like [`Session::connect`] but with a single attempt.
    ///
    /// If the machine refuses the connection, this fails at once. The deadline applies to an
    /// address that does not answer.
    pub async fn connect_once(
        target: Target,
        election_id: u128,
        deadline: Instant,
    ) -> Result<Self, SessionError> {
        let endpoint = endpoint(&target)?;
        match tokio::time::timeout_at(deadline, attempt(&endpoint, &target, election_id)).await {
            Ok(Ok(session)) => Ok(session),
            Ok(Err(Failure::Final(error))) => Err(error),
            Ok(Err(Failure::Passing(failed))) => Err(unreachable(target, failed)),
            Err(_) => Err(unreachable(target, Attempt::silent())),
        }
    }
}

impl Target {
    /// Checks the form of the address, without connecting to it.
    pub fn check(&self) -> Result<(), SessionError> {
        endpoint(self).map(drop)
    }
}

fn unreachable(target: Target, failed: Attempt) -> SessionError {
    let Attempt { words: reason, refused } = failed;
    SessionError::Unreachable { switch: target.name, address: target.address, reason, refused }
}

/// A failed attempt.
struct Attempt {
    words: String,
    /// True if the machine refused the connection, because no program listens there.
    refused: bool,
}

impl Attempt {
    fn silent() -> Self {
        Self { words: SILENT.to_owned(), refused: false }
    }

    fn failed(error: &tonic::transport::Error) -> Self {
        Self { words: chain(error), refused: is_refusal(error) }
    }
}

/// The consequence of a failed attempt.
enum Failure {
    /// Another attempt may succeed.
    Passing(Attempt),
    /// The switch has refused permanently.
    Final(SessionError),
}

fn endpoint(target: &Target) -> Result<Endpoint, SessionError> {
    let endpoint = Endpoint::from_shared(format!("http://{}", target.address)).map_err(|error| {
        SessionError::BadAddress {
            switch: target.name.clone(),
            address: target.address.clone(),
            reason: error.to_string(),
        }
    })?;
    // Without `Session::watch_silence`, only TCP's keepalive detects that a switch has vanished.
    let endpoint = endpoint.tcp_nodelay(true).tcp_keepalive(Some(Duration::from_secs(10)));
    Ok(endpoint.http2_max_header_list_size(MAX_HEADERS))
}

async fn attempt(endpoint: &Endpoint, target: &Target, election_id: u128) -> Result<Session, Failure> {
    let channel = endpoint.connect().await.map_err(|error| Failure::Passing(Attempt::failed(&error)))?;
    let client = P4RuntimeClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let (outgoing, incoming) = open_stream(client.clone(), target, election_id).await.map_err(|status| {
        if is_transport(&status) {
            Failure::Passing(Attempt { words: words(&status), refused: false })
        } else {
            Failure::Final(SessionError::from_status(&target.name, "the claim to be its controller", &status))
        }
    })?;
    let (incoming, first) = incoming;
    let states = States::new(first);
    let (notifications, _) = broadcast::channel(NOTIFICATIONS_KEPT);
    let reader = Reader::spawn(incoming, states.clone(), notifications.clone(), target.name.clone());
    Ok(Session {
        target: target.clone(),
        election_id,
        client,
        outgoing,
        states,
        notifications,
        _reader: reader,
        watcher: None,
    })
}

type Opened = (mpsc::Sender<message::StreamMessageRequest>, (stream::Incoming, super::Mastership));

/// Opens the stream, and waits for the answer to this session's arbitration request.
async fn open_stream(
    mut client: P4RuntimeClient<Channel>,
    target: &Target,
    election_id: u128,
) -> Result<Opened, Status> {
    let (outgoing, requests) = mpsc::channel(OUTGOING_KEPT);
    let claim = message::MasterArbitrationUpdate {
        device_id: target.device_id,
        election_id: Some(to_wire(election_id)),
        ..Default::default()
    };
    // The request is queued before the call, because BMv2 sends no response headers before it has
    // received a message.
    let claim = message::StreamMessageRequest { update: Some(Update::Arbitration(claim)) };
    outgoing.send(claim).await.map_err(|_| Status::internal("the stream's queue is closed"))?;
    let mut incoming: Streaming<_> = client.stream_channel(ReceiverStream::new(requests)).await?.into_inner();
    loop {
        let Some(response) = incoming.message().await? else {
            return Err(Status::unavailable("the switch closed the stream without an answer"));
        };
        if let Some(state) = stream::arbitration(&response, election_id) {
            return Ok((outgoing, (stream::Incoming::new(incoming, election_id), state)));
        }
    }
}

/// Returns true if the machine has refused the connection, because no program listens there.
fn is_refusal(error: &tonic::transport::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the text of an error and its causes. The message of tonic's error is only "transport
/// error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
