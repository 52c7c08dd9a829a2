//! Frames between the controller and the ports of a switch. They bypass the forwarding tables of the
//! switch.

use std::convert::Infallible;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tributary_p4runtime::Session;
use tributary_p4runtime::entry::{ControllerPacket, EntryError};
use tributary_p4runtime::p4::v1 as message;
use tributary_p4runtime::session::Notification;
use tributary_topology::NodeKey;

use crate::pipeline::{PACKET_IN_PORT, PACKET_OUT_PORT, Pipeline};

/// A frame that a switch has sent to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PacketIn {
    pub(crate) switch: NodeKey,
    /// The port at which the frame arrived.
    pub(crate) port: u16,
    /// The frame, starting with the Ethernet header.
    pub(crate) payload: Vec<u8>,
}

/// A frame that a switch should send.
#[derive(Debug)]
pub(super) struct PacketOut {
    pub(super) port: u16,
    pub(super) payload: Vec<u8>,
}

/// The frames of one switch in both directions.
pub(super) struct Packets {
    pub(super) switch: NodeKey,
    pub(super) outgoing: mpsc::Receiver<PacketOut>,
    /// The channel for frames from all switches.
    pub(super) incoming: broadcast::Sender<PacketIn>,
}

impl Packets {
    /// Transfers frames in both directions. It never returns; the caller stops polling it when the session
    /// ends.
    /// Frames that were queued before the session began are dropped as outdated.
    pub(super) async fn pump(&mut self, session: &Session, pipeline: &Pipeline) -> Infallible {
        let mut notifications = session.notifications();
        while self.outgoing.try_recv().is_ok() {}
        loop {
            tokio::select! {
                Some(packet) = self.outgoing.recv() => send(session, pipeline, packet).await,
                heard = notifications.recv() => match heard {
                    Ok(heard) => self.take(session, pipeline, heard),
                    Err(RecvError::Lagged(lost)) => {
                        tracing::debug!(switch = session.target().name, lost, "packets came too fast");
                    }
                    // The session has ended, and the caller will drop it soon.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            }
        }
    }

    fn take(&self, session: &Session, pipeline: &Pipeline, heard: Notification) {
        let switch = &session.target().name;
        let packet = match heard {
            Notification::PacketIn(packet) => packet,
            Notification::Refused(error) => {
                tracing::debug!(switch, error.message, "a packet was refused");
                return;
            }
        };
        match self.decode(pipeline, packet) {
            // An error means that the packet has no receiver, and is lost without harm.
            Ok(Some(packet)) => drop(self.incoming.send(packet)),
            Ok(None) => tracing::debug!(switch, "a packet does not say by which port it came"),
            Err(error) => tracing::debug!(switch, %error, "a packet that is not ours"),
        }
    }

    /// Decodes a packet; `None` if the packet has no ingress port.
    fn decode(&self, pipeline: &Pipeline, packet: message::PacketIn) -> Result<Option<PacketIn>, EntryError> {
        let ControllerPacket { payload, fields } = ControllerPacket::from_packet_in(&pipeline.info, packet)?;
        let port = fields.get(PACKET_IN_PORT).and_then(|port| u16::try_from(*port).ok());
        Ok(port.map(|port| PacketIn { switch: self.switch, port, payload }))
    }
}

async fn send(session: &Session, pipeline: &Pipeline, packet: PacketOut) {
    let PacketOut { port, payload } = packet;
    let packet = ControllerPacket::new(payload).with(PACKET_OUT_PORT, port).to_packet_out(&pipeline.info);
    let switch = &session.target().name;
    let sent = match packet {
        Ok(packet) => session.send_packet(packet).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = sent {
        tracing::debug!(switch, port, error, "a packet was not sent");
    }
}
