//! Messages that the switch sends without a request: its primary controller, packets, and reports
//! of refused packets.

use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tonic::Streaming;

use super::error::words;
use super::{Mastership, from_wire};
use crate::google::rpc::Code;
use crate::p4::v1 as message;
use crate::p4::v1::stream_message_response::Update;

/// A message that the switch sends to its primary controller without a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Notification {
    /// A packet that the program sent to the CPU port.
    PacketIn(message::PacketIn),
    /// A packet of this session that the switch could not send.
    Refused(message::StreamError),
}

/// The receiving half of the stream, and its session's election id.
pub(super) struct Incoming {
    messages: Streaming<message::StreamMessageResponse>,
    election_id: u128,
}

impl Incoming {
    pub(super) fn new(messages: Streaming<message::StreamMessageResponse>, election_id: u128) -> Self {
        Self { messages, election_id }
    }
}

/// The last known primary controller.
///
/// After the session has ended, messages that arrive later do not change this state.
#[derive(Debug, Clone)]
pub(super) struct States(watch::Sender<Mastership>);

impl States {
    pub(super) fn new(first: Mastership) -> Self {
        Self(watch::Sender::new(first))
    }

    pub(super) fn watch(&self) -> watch::Receiver<Mastership> {
        self.0.subscribe()
    }

    pub(super) fn set(&self, state: Mastership) {
        self.0.send_if_modified(|now| {
            let ended = matches!(now, Mastership::Ended { .. });
            if !ended {
                *now = state;
            }
            !ended
        });
    }
}

/// The task that reads the stream; it ends with the session.
#[derive(Debug)]
pub(super) struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reader {
    pub(super) fn spawn(
        incoming: Incoming,
        states: States,
        notifications: broadcast::Sender<Notification>,
        switch: String,
    ) -> Self {
        Self(tokio::spawn(read(incoming, states, notifications, switch)))
    }
}

async fn read(
    mut incoming: Incoming,
    states: States,
    notifications: broadcast::Sender<Notification>,
    switch: String,
) {
    let reason = loop {
        let response = match incoming.messages.message().await {
            Ok(Some(response)) => response,
            Ok(None) => break "the switch closed the stream".to_owned(),
            Err(status) => break words(&status),
        };
        if let Some(state) = arbitration(&response, incoming.election_id) {
            tracing::debug!(switch, %state, "arbitration");
            states.set(state);
        }
        let notification = match response.update {
            Some(Update::Packet(packet)) => Notification::PacketIn(packet),
            Some(Update::Error(error)) => Notification::Refused(error),
            _ => continue,
        };
        // The notification may have no receiver.
        let _ = notifications.send(notification);
    };
    tracing::debug!(switch, reason, "session ended");
    states.set(Mastership::Ended { reason });
}

/// Returns the state that an arbitration message reports to the session with the election id `own`.
pub(super) fn arbitration(response: &message::StreamMessageResponse, own: u128) -> Option<Mastership> {
    let Some(Update::Arbitration(update)) = &response.update else { return None };
    let highest = from_wire(update.election_id.as_ref());
    let code = update.status.as_ref().map_or(Code::Ok as i32, |status| status.code);
    Some(match Code::try_from(code) {
        Ok(Code::Ok) => Mastership::Primary,
        Ok(Code::NotFound) => Mastership::Nobody,
        // Some switches report the highest election id that they have ever received. If it equals
        // this session's id, the switch has no primary.
        _ if highest == own => Mastership::Nobody,
        _ => Mastership::Backup { primary: highest },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::google::rpc;
    use crate::session::to_wire;

    fn answer(code: Code, highest: u128) -> message::StreamMessageResponse {
        let update = message::MasterArbitrationUpdate {
            election_id: Some(to_wire(highest)),
            status: Some(rpc::Status { code: code.into(), ..Default::default() }),
            ..Default::default()
        };
        message::StreamMessageResponse { update: Some(Update::Arbitration(update)) }
    }

    #[test]
    fn the_status_says_who_is_primary() {
        let high = 7 << 64 | 1;
        assert_eq!(arbitration(&answer(Code::Ok, high), high), Some(Mastership::Primary));
        assert_eq!(
            arbitration(&answer(Code::AlreadyExists, high), 3),
            Some(Mastership::Backup { primary: high })
        );
        assert_eq!(arbitration(&answer(Code::NotFound, high), 3), Some(Mastership::Nobody));
        let packet = Update::Packet(message::PacketIn::default());
        assert_eq!(arbitration(&message::StreamMessageResponse { update: Some(packet) }, 3), None);
    }
}
