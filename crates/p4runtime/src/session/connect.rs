//! Connects to an address, until the switch has answered the session's claim.

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

/// BMv2 answers a wildcard read in a single message, however long.
const MAX_MESSAGE: usize = 256 << 20;
/// If every update of a batch fails, a thousand error messages come back in a trailer.
const MAX_HEADERS: u32 = 2 << 20;
/// Packets from the switch that are buffered for a slow subscriber before the oldest are lost.
const NOTIFICATIONS_KEPT: usize = 1024;
/// Packets to the switch that wait for the connection.
const OUTGOING_KEPT: usize = 64;
/// The first pause between two attempts to connect.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// The reason given when an attempt neither succeeded nor failed in time.
const SILENT: &str = "it neither accepts nor refuses a connection, or says nothing on it";

impl Session {
    /// Connects, and claims the switch with this election id (larger wins; 0 never does).
    /// If the switch isn't there yet, retries until the deadline. The session may turn out not to be primary: see
    /// [`Session::mastership`].
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
    /// If the machine refuses the connection, this fails at once; the deadline is for an address that does not answer.
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

/// Reason why an attempt failed.
enum Failure {
    /// Worth another attempt.
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
    // Without `Session::watch_silence`, only TCP notices when a switch vanishes.
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

/// Opens the stream, and waits for the answer to our claim.
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
    // Queued before the call: BMv2 sends no response headers until it has had a message to answer.
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

/// An error and its causes: tonic's own message is only "transport error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
