//! The state that all connections share: the primary controllers, and the programs of the switch.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, RwLock, RwLockReadGuard, mpsc, watch};
use tonic::Status;
use tributary_p4runtime::P4Info;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::stream_message_response::Update;
use tributary_p4runtime::p4::v1::{
    DigestListAck, ForwardingPipelineConfig, PacketOut, StreamMessageResponse, Uint128,
};

use super::arbitration::{ConnectionId, from_wire};
use super::readers::Readers;
use super::roles::Roles;
use super::status::Refusal;
use super::{device_config, packet};
use crate::engine::{Control, PacketIns};
use crate::error::ControlError;
use crate::packet_log::PacketLog;
use crate::pipeline::Pipeline;
use crate::switch::Switch;

/// Messages that may wait for a controller to read them.
pub(super) const MAILBOX: usize = 1024;
/// Places of a mailbox that packets leave free for other messages, because other messages must not
/// be lost.
const NOT_FOR_PACKETS: usize = 64;

/// The switch behind a P4Runtime server.
///
/// A request takes the locks in the order of the fields, and holds them until it is done. So a
/// change of the primary waits for the old primary's writes, and a change of the program waits for
/// all requests. A request owns its guards, and it is [carried through](carry_through) even if its
/// caller disconnects.
pub(super) struct Device {
    pub(super) id: u64,
    pub(super) control: Control,
    pub(super) roles: Arc<RwLock<Roles<Mailbox>>>,
    pub(super) programs: Arc<RwLock<Programs>>,
    pub(super) readers: Readers,
    pub(super) stopping: watch::Receiver<bool>,
}

/// Proof that a request comes from its role's primary; no other controller becomes primary
/// until this is dropped.
pub(super) type Primacy = OwnedRwLockReadGuard<Roles<Mailbox>>;

/// A controller's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControllerConnection {
    /// The role's name; empty for the default role.
    pub(super) role: String,
    pub(super) id: ConnectionId,
}

/// Carries out work that must not stop half-way.
///
/// The work continues even if the caller disconnects and this future is dropped. So it must own the
/// guards that it needs.
pub(super) async fn carry_through<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(Status::internal(format!("the request broke off: {error}"))))
}

/// The program that a switch runs, and the program that a controller has saved for it.
#[derive(Default)]
pub(super) struct Programs {
    pub(super) running: Option<Arc<DeviceProgram>>,
    /// The program of VERIFY_AND_SAVE, on a switch beside the running one. Requests go to it until
    /// COMMIT.
    pub(super) saved: Option<SavedProgram>,
}

/// A program, as a controller sent it.
pub(crate) struct DeviceProgram {
    pub(super) config: ForwardingPipelineConfig,
    pub(super) pipeline: Arc<Pipeline>,
}

/// A program that waits for COMMIT, on a switch with everything that controllers have written
/// since.
pub(super) struct SavedProgram {
    pub(super) program: Arc<DeviceProgram>,
    pub(super) switch: Mutex<Switch>,
}

impl DeviceProgram {
    /// Compiles and checks a program. Do not call this on an async thread, because it takes
    /// milliseconds.
    pub(super) fn load(config: ForwardingPipelineConfig, log: Option<PacketLog>) -> Result<Self, Refusal> {
        let p4info = config.p4info.clone().ok_or_else(|| Refusal::invalid("the config has no P4Info"))?;
        let json = device_config::json(&config.p4_device_config)?;
        let pipeline = Arc::new(Pipeline::load_to_log(&json, p4info, log)?);
        Ok(Self { config, pipeline })
    }

    pub(super) fn p4info(&self) -> &P4Info {
        self.pipeline.info()
    }
}

impl Programs {
    /// Returns the program to which requests refer.
    pub(super) fn current(&self) -> Result<&Arc<DeviceProgram>, Status> {
        let saved = self.saved.as_ref().map(|saved| &saved.program);
        saved.or(self.running.as_ref()).ok_or_else(no_pipeline)
    }

    /// Runs `work` on the switch to which requests refer.
    pub(super) async fn run<R, F>(&self, control: &Control, work: F) -> Result<R, Status>
    where
        R: Send + 'static,
        F: FnOnce(&mut Switch) -> R + Send + 'static,
    {
        match &self.saved {
            // A panic while the lock was held has ended only that request. The state is as that
            // request left it.
            Some(saved) => Ok(work(&mut saved.switch.lock())),
            None => control.run(work).await.map_err(|error| Refusal::from(error).into()),
        }
    }
}

/// The queue of messages to one controller.
#[derive(Clone)]
pub(super) struct Mailbox {
    pub(super) sender: mpsc::Sender<Result<StreamMessageResponse, Status>>,
    /// Ends the controller's stream.
    pub(super) end: Arc<Notify>,
}

impl Mailbox {
    /// Posts a message. If the mailbox is full, the controller is disconnected, because it would
    /// miss a change of the primary.
    pub(super) fn post(&self, update: Update) {
        if self.sender.try_send(Ok(StreamMessageResponse { update: Some(update) })).is_err() {
            self.end.notify_one();
        }
    }

    /// Posts a packet. Returns true if the mailbox had room for it.
    fn post_packet(&self, update: Update) -> bool {
        let room = self.sender.capacity() > NOT_FOR_PACKETS;
        room && self.sender.try_send(Ok(StreamMessageResponse { update: Some(update) })).is_ok()
    }
}

impl Device {
    /// Creates the state. `running` is the program with which the switch was started.
    pub(super) fn new(
        id: u64,
        control: Control,
        running: Option<Arc<DeviceProgram>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            id,
            control,
            roles: Arc::default(),
            programs: Arc::new(RwLock::new(Programs { running, saved: None })),
            readers: Readers::default(),
            stopping,
        }
    }

    /// Checks that the request is for this device.
    pub(super) fn check_id(&self, id: u64) -> Result<(), Status> {
        if id == self.id {
            return Ok(());
        }
        Err(Status::not_found(format!("there is no device {id} here: this is device {}", self.id)))
    }

    /// Checks that the request comes from its role's primary. The primary cannot change while the
    /// guard is held.
    pub(super) async fn require_primary(
        &self,
        role: &str,
        election_id: Option<&Uint128>,
    ) -> Result<Primacy, Status> {
        let roles = Arc::clone(&self.roles).read_owned().await;
        let controllers = roles.get(role);
        if controllers.is_none() && !role.is_empty() {
            let problem = format!("no role {role} is known here: no controller of it is connected");
            return Err(Status::not_found(problem));
        }
        let id = from_wire(election_id);
        if controllers.is_some_and(|controllers| controllers.is_primary(id)) {
            return Ok(roles);
        }
        Err(Status::permission_denied(format!("not primary: no primary controller has the election id {id}")))
    }

    /// Notifies each of these controllers of a role of the current primary.
    pub(super) fn tell(&self, roles: &Roles<Mailbox>, role: &str, controllers: &[ConnectionId]) {
        let Some(arbitration) = roles.get(role) else { return };
        for (update, mailbox) in controllers.iter().filter_map(|&id| arbitration.verdict(id, self.id, role)) {
            mailbox.post(Update::Arbitration(update));
        }
    }

    /// Delivers packets from the switch to the roles' primary controllers, until the switch stops.
    pub(super) async fn deliver_packets(&self, mut packets: PacketIns) {
        while let Some(frame) = packets.recv().await {
            let Some(program) = self.programs.read().await.running.clone() else { continue };
            let Some(packet) = packet::unpack(&program.pipeline.directory.packet_in, &frame) else {
                tracing::debug!(bytes = frame.len(), "packet to the controller is shorter than its header");
                continue;
            };
            self.post(Update::Packet(packet)).await;
        }
    }

    /// Posts a packet or a notification to the roles' primary controllers, if their mailboxes have
    /// room for it.
    pub(super) async fn post(&self, update: Update) {
        let roles = self.roles.read().await;
        let mut primaries = roles.primary_mailboxes();
        let Some(first) = primaries.next() else {
            tracing::debug!("message to the controller dropped: nobody is there");
            return;
        };
        for primary in primaries {
            if !primary.post_packet(update.clone()) {
                tracing::debug!("message to a role's controller dropped: it does not read");
            }
        }
        if !first.post_packet(update) {
            tracing::debug!("message to the controller dropped: it does not read");
        }
    }

    /// Checks that a stream's message comes from its role's primary. The primary cannot change
    /// while the guard is held.
    async fn primary_only(
        &self,
        from: Option<&ControllerConnection>,
        only: &str,
    ) -> Result<RwLockReadGuard<'_, Roles<Mailbox>>, Refusal> {
        let roles = self.roles.read().await;
        if from.is_some_and(|from| roles.is_primary_connection(&from.role, from.id)) {
            return Ok(roles);
        }
        Err(Refusal::new(Code::PermissionDenied, format!("not primary: {only}")))
    }

    /// Handles a controller's acknowledgement of a digest list. Only the primary's acknowledgements
    /// count.
    pub(super) async fn acknowledge(
        &self,
        from: Option<&ControllerConnection>,
        ack: &DigestListAck,
    ) -> Result<(), Refusal> {
        let _roles = self.primary_only(from, "digests are acknowledged by the primary only").await?;
        let (digest, list) = (ack.digest_id, ack.list_id);
        let done = self.control.run(move |switch| switch.acknowledge_digest(digest, list)).await?;
        Ok(done?)
    }

    /// Sends a controller's packet to the switch.
    pub(super) async fn send_packet(
        &self,
        from: Option<&ControllerConnection>,
        packet: &PacketOut,
    ) -> Result<(), Refusal> {
        let _roles = self.primary_only(from, "packets are taken from the primary only").await?;
        let running = self.programs.read().await.running.clone();
        let program = running.ok_or(ControlError::NoPipeline)?;
        let frame = packet::pack(&program.pipeline.directory.packet_out, packet)?;
        Ok(self.control.packet_out(frame).await?)
    }
}

pub(super) fn no_pipeline() -> Status {
    Refusal::from(ControlError::NoPipeline).into()
}
