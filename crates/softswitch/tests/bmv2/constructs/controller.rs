//! A controller that uses P4Runtime's messages directly, so that both switches receive the same
//! messages.

use std::net::SocketAddr;
use std::time::Duration;

use num_bigint::BigUint;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Say;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Told;
use tributary_p4runtime::p4::v1::{self as message, Uint128, Update};

use super::program::Program;
use crate::pair::{DEVICE, PATIENCE};

const ELECTION_ID: Option<Uint128> = Some(Uint128 { high: 0, low: 1 });

/// The primary controller of a switch.
pub(crate) struct Controller {
    name: &'static str,
    client: P4RuntimeClient<Channel>,
    outgoing: mpsc::Sender<message::StreamMessageRequest>,
    told: mpsc::UnboundedReceiver<Told>,
    /// Notifications that arrived between packets.
    kept: Vec<Told>,
}

impl Controller {
    /// Connects, and sets a program.
    pub(crate) async fn connect(name: &'static str, address: SocketAddr, program: &Program) -> Self {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let client = P4RuntimeClient::new(channel).max_decoding_message_size(64 << 20);
        let (outgoing, requests) = mpsc::channel(64);
        let (tell, told) = mpsc::unbounded_channel();
        let mut caller = client.clone();
        tokio::spawn(async move {
            let mut answers =
                caller.stream_channel(ReceiverStream::new(requests)).await.unwrap().into_inner();
            while let Ok(Some(answer)) = answers.message().await {
                if let Some(update) = answer.update {
                    // The receiver is dropped at the end of the test.
                    let _ = tell.send(update);
                }
            }
        });
        let mut controller = Self { name, client, outgoing, told, kept: Vec::new() };
        let claim = message::MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: ELECTION_ID,
            ..Default::default()
        };
        controller.say(Say::Arbitration(claim)).await;
        assert!(matches!(controller.next().await, Some(Told::Arbitration(_))));
        controller.install(program).await;
        controller
    }

    async fn install(&mut self, program: &Program) {
        let config = message::ForwardingPipelineConfig {
            p4info: Some(program.info.message().clone()),
            p4_device_config: program.json.to_string().into_bytes(),
            cookie: None,
        };
        let request = message::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: ELECTION_ID,
            action: Action::VerifyAndCommit.into(),
            config: Some(config),
            ..Default::default()
        };
        let installed = self.client.set_forwarding_pipeline_config(request).await;
        installed.unwrap_or_else(|status| panic!("{}: {}", self.name, status.message()));
    }

    pub(crate) async fn say(&self, update: Say) {
        self.outgoing.send(message::StreamMessageRequest { update: Some(update) }).await.unwrap();
    }

    /// Receives the switch's next message; `None` if no message arrives in time.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        tokio::time::timeout(PATIENCE, self.told.recv()).await.ok().flatten()
    }

    /// Returns the next packet from the switch, with its header fields in front as in a frame.
    pub(crate) async fn packet_in(&mut self, program: &Program) -> Option<Vec<u8>> {
        loop {
            match self.next().await? {
                Told::Packet(packet) => return Some(on_the_wire(program, &packet)),
                other => self.kept.push(other),
            }
        }
    }

    /// Returns the messages that arrived since the last call.
    pub(crate) fn so_far(&mut self) -> Vec<Told> {
        let mut told = std::mem::take(&mut self.kept);
        told.extend(std::iter::from_fn(|| self.told.try_recv().ok()));
        told
    }

    /// Stores the received messages, so that the switch can send more.
    pub(crate) fn keep(&mut self) {
        self.kept = self.so_far();
    }

    /// Waits until the switch sends a message.
    pub(crate) async fn wait(&mut self, patience: Duration) {
        if let Ok(Some(told)) = tokio::time::timeout(patience, self.told.recv()).await {
            self.kept.push(told);
        }
    }

    /// Writes updates. Returns the number and the code of each failed update.
    pub(crate) async fn write(&mut self, updates: &[Update]) -> Vec<(usize, i32)> {
        let request = message::WriteRequest {
            device_id: DEVICE,
            election_id: ELECTION_ID,
            updates: updates.to_vec(),
            ..Default::default()
        };
        match self.client.write(request).await {
            Ok(_) => Vec::new(),
            Err(status) => failures(&status),
        }
    }

    /// Reads the entities that a pattern covers, and sorts them.
    pub(crate) async fn read(&mut self, pattern: Kind) -> Result<Vec<Kind>, Status> {
        let entities = vec![message::Entity { entity: Some(pattern) }];
        let request = message::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
        let mut answers = self.client.read(request).await?.into_inner();
        let mut found = Vec::new();
        while let Some(answer) = answers.message().await? {
            found.extend(answer.entities.into_iter().filter_map(|entity| entity.entity));
        }
        found.sort_by_key(|entity| format!("{entity:?}"));
        Ok(found)
    }
}

fn on_the_wire(program: &Program, packet: &message::PacketIn) -> Vec<u8> {
    let header = program.info.packet_in().unwrap();
    let mut number = BigUint::ZERO;
    for field in &header.fields {
        let value = packet.metadata.iter().find(|one| one.metadata_id == field.id).unwrap();
        number = number << field.width | BigUint::from_bytes_be(&value.value);
    }
    let bytes = header.fields.iter().map(|field| field.width).sum::<u32>().div_ceil(8) as usize;
    let number = number.to_bytes_be();
    [&vec![0; bytes - number.len()], &number[..], &packet.payload].concat()
}

fn failures(status: &Status) -> Vec<(usize, i32)> {
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    let code = |detail: &prost_types::Any| detail.to_msg::<message::Error>().unwrap();
    let errors = details.iter().map(code).enumerate().filter(|(_, error)| error.canonical_code != 0);
    let failures: Vec<_> = errors
        .map(|(index, error)| {
            println!("update {index}: {}", error.message);
            (index, error.canonical_code)
        })
        .collect();
    if failures.is_empty() { panic!("{}", status.message()) } else { failures }
}
