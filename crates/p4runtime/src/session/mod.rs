//! A controller's connection to one switch.
//!
//! A [`Session`] requests to be the switch's primary controller. It opens the stream, sends its
//! election id, and keeps the stream open until it is dropped. The controller can
//! [watch](Session::mastership) whether the session is primary: a controller with a higher id may
//! take over at any time, and the switch then refuses this session's writes.

mod connect;
mod error;
mod keepalive;
mod pipeline;
mod requests;
mod stream;

use std::fmt;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, watch};
use tonic::Status;
use tonic::transport::Channel;

pub use error::{SessionError, UpdateFailure};
pub use pipeline::Running;
pub use stream::Notification;

use crate::p4::v1 as message;
use crate::p4::v1::p4_runtime_client::P4RuntimeClient;

/// The time limit of a request. It is longer than any request takes: BMv2 takes seconds to load a
/// large program.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The name and address of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the switch in errors.
    pub name: String,
    /// The address `host:port` of the switch's P4Runtime server.
    pub address: String,
    /// The device id that the switch was started with.
    pub device_id: u64,
}

/// The switch's last report about its primary controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mastership {
    /// This session is primary: it may write.
    Primary,
    /// Another session is primary.
    Backup {
        /// The primary's election id.
        primary: u128,
    },
    /// The switch has no primary. The last primary has left, and its election id is higher than the
    /// id of this session.
    Nobody,
    /// The session has ended.
    Ended {
        /// The reason for the end.
        reason: String,
    },
}

impl fmt::Display for Mastership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary => write!(f, "it is primary"),
            Self::Backup { primary } => write!(f, "the one with the election id {primary} is"),
            Self::Nobody => write!(f, "none is"),
            Self::Ended { reason } => write!(f, "its session has ended: {reason}"),
        }
    }
}

/// A connection to one switch; see the [module](self).
#[derive(Debug)]
pub struct Session {
    target: Target,
    election_id: u128,
    client: P4RuntimeClient<Channel>,
    outgoing: mpsc::Sender<message::StreamMessageRequest>,
    states: stream::States,
    notifications: broadcast::Sender<Notification>,
    _reader: stream::Reader,
    watcher: Option<keepalive::Watcher>,
}

impl Session {
    /// Returns the name and address of the switch.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the election id of this session.
    pub fn election_id(&self) -> u128 {
        self.election_id
    }

    /// Returns a receiver of the switch's primary controller: the present one, and every change.
    pub fn mastership(&self) -> watch::Receiver<Mastership> {
        self.states.watch()
    }

    /// Returns true if this session may write, according to the switch's last report.
    pub fn is_primary(&self) -> bool {
        *self.states.watch().borrow() == Mastership::Primary
    }

    /// Waits until this session is primary.
    /// The caller sets the deadline, e.g. with [`tokio::time::timeout`].
    pub async fn primary(&self) -> Result<(), SessionError> {
        let mut watch = self.mastership();
        let decided = |state: &Mastership| matches!(state, Mastership::Primary | Mastership::Ended { .. });
        let state = watch.wait_for(decided).await.map(|state| state.clone());
        match state {
            Ok(Mastership::Ended { reason }) => Err(self.ended(reason)),
            Ok(_) => Ok(()),
            Err(_) => Err(self.ended("its reader has stopped".to_owned())),
        }
    }

    /// Returns a receiver of packets from the switch, and of its reports on packets that it
    /// refused.
    ///
    /// It receives notifications from now on. A reader that is too slow loses the oldest
    /// notifications, and gets an error with their number.
    pub fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }

    /// Sends a packet to the switch.
    /// The switch does not answer if it accepts the packet. It reports a refusal as a notification.
    pub async fn send_packet(&self, packet: message::PacketOut) -> Result<(), SessionError> {
        let update = message::stream_message_request::Update::Packet(packet);
        let sent = self.outgoing.send(message::StreamMessageRequest { update: Some(update) }).await;
        sent.map_err(|_| self.ended("its stream is closed".to_owned()))
    }

    /// Waits for the answer to a request until the time limit.
    async fn answer<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, Status>>,
    ) -> Result<Result<T, Status>, SessionError> {
        let silent = || SessionError::NoAnswer {
            switch: self.target.name.clone(),
            what,
            seconds: REQUEST_TIMEOUT.as_secs(),
        };
        tokio::time::timeout(REQUEST_TIMEOUT, request).await.map_err(|_| silent())
    }

    /// Waits for the answer to a request, and returns a refusal as an error.
    async fn success<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, SessionError> {
        let answer = self.answer(what, request).await?;
        answer.map_err(|status| SessionError::from_status(&self.target.name, what, &status))
    }

    fn ended(&self, reason: String) -> SessionError {
        SessionError::Ended { switch: self.target.name.clone(), reason }
    }
}

fn to_wire(id: u128) -> message::Uint128 {
    let half = |part: u128| u64::try_from(part & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    message::Uint128 { high: half(id >> 64), low: half(id) }
}

fn from_wire(id: Option<&message::Uint128>) -> u128 {
    id.map_or(0, |id| u128::from(id.high) << 64 | u128::from(id.low))
}
