//! One controller's stream: its arbitration requests, and its packets.

use std::sync::Arc;

use prost::Message;
use tonic::{Status, Streaming};
use tributary_p4runtime::p4::v1::stream_error::Details;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Request;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Response;
use tributary_p4runtime::p4::v1::{
    DigestListAck, DigestListAckError, MasterArbitrationUpdate, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamOtherError,
};

use super::arbitration::{MAX_CONTROLLERS, Rejected, from_wire};
use super::device::{ControllerConnection, Device, Mailbox};
use super::roles::claimed;
use super::status::{Refusal, SPACE};

/// The largest packet in bytes that is returned with the reason for its refusal. It waits until the
/// controller reads it.
const ECHO_BYTES: usize = 2 << 10;

/// Serves a stream until one side ends it; then the controller leaves the arbitration.
pub(super) async fn serve(device: Arc<Device>, requests: Streaming<StreamMessageRequest>, mailbox: Mailbox) {
    let mut connection = Connection { device, mailbox, controller: None };
    let outcome = connection.run(requests).await;
    if let Err(status) = outcome {
        tracing::debug!(%status, "controller's stream ends");
        // A full mailbox means that the controller is not draining its stream.
        let _ = connection.mailbox.sender.try_send(Err(status));
    }
    connection.leave().await;
}

struct Connection {
    device: Arc<Device>,
    mailbox: Mailbox,
    /// The controller; `None` before its first arbitration request.
    controller: Option<ControllerConnection>,
}

impl Connection {
    async fn run(&mut self, mut requests: Streaming<StreamMessageRequest>) -> Result<(), Status> {
        let mut stopping = self.device.stopping.clone();
        let end = self.mailbox.end.clone();
        loop {
            let request = tokio::select! {
                request = requests.message() => request?,
                () = end.notified() => return Err(Status::resource_exhausted("too many messages wait unread")),
                _ = stopping.wait_for(|stopping| *stopping) => {
                    return Err(Status::unavailable("the switch is shutting down"));
                }
            };
            match request.map(|request| request.update) {
                None => return Ok(()),
                Some(Some(Request::Arbitration(claim))) => self.claim(&claim).await?,
                Some(Some(Request::Packet(packet))) => self.packet(packet).await,
                Some(Some(Request::DigestAck(ack))) => self.acknowledge(ack).await,
                Some(None) => {}
                Some(Some(Request::Other(other))) => {
                    let refusal = Refusal::unimplemented("a stream message of an architecture's own kind");
                    let other = (other.encoded_len() <= ECHO_BYTES).then_some(other);
                    self.complain(refusal, Details::Other(StreamOtherError { other }));
                }
            }
        }
    }

    async fn claim(&mut self, claim: &MasterArbitrationUpdate) -> Result<(), Status> {
        match self.controller {
            None => self.device.check_id(claim.device_id)?,
            Some(_) if claim.device_id != self.device.id => {
                return Err(Status::failed_precondition("a stream stays with the device of its first claim"));
            }
            Some(_) => {}
        }
        let role = claimed(claim.role.as_ref())?;
        let election_id = from_wire(claim.election_id.as_ref());
        let mut roles = self.device.roles.write().await;
        let told = match &self.controller {
            Some(controller) if controller.role != role => {
                return Err(Status::failed_precondition("a stream stays with the role of its first claim"));
            }
            Some(controller) => roles.claim(role, controller.id, election_id),
            None => roles.join(role, election_id, self.mailbox.clone()).map(|(id, told)| {
                self.controller = Some(ControllerConnection { role: role.to_owned(), id });
                told
            }),
        };
        self.device.tell(&roles, role, &told.map_err(rejected)?);
        Ok(())
    }

    async fn packet(&self, packet: PacketOut) {
        if let Err(refusal) = self.device.send_packet(self.controller.as_ref(), &packet).await {
            let packet_out = (packet.encoded_len() <= ECHO_BYTES).then_some(packet);
            self.complain(refusal, Details::PacketOut(PacketOutError { packet_out }));
        }
    }

    async fn acknowledge(&self, ack: DigestListAck) {
        if let Err(refusal) = self.device.acknowledge(self.controller.as_ref(), &ack).await {
            let details = DigestListAckError { digest_list_ack: Some(ack) };
            self.complain(refusal, Details::DigestListAck(details));
        }
    }

    fn complain(&self, refusal: Refusal, details: Details) {
        self.mailbox.post(Response::Error(StreamError {
            canonical_code: refusal.code.into(),
            message: refusal.reason,
            space: SPACE.to_owned(),
            code: 0,
            details: Some(details),
        }));
    }

    async fn leave(self) {
        let Some(ControllerConnection { role, id }) = self.controller else { return };
        let mut roles = self.device.roles.write().await;
        let told = roles.leave(&role, id);
        self.device.tell(&roles, &role, &told);
    }
}

fn rejected(rejected: Rejected) -> Status {
    match rejected {
        Rejected::IdInUse(id) => {
            Status::invalid_argument(format!("another connected controller has the election id {id}"))
        }
        Rejected::TooMany => Status::resource_exhausted(format!(
            "{MAX_CONTROLLERS} controllers of this role are connected, and no more can be"
        )),
    }
}
