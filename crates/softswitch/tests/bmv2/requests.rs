//! Requests as raw messages, and their outcomes as short texts that can be compared.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Told;
use tributary_p4runtime::p4::v1::{self as message, stream_message_request};
use tributary_p4runtime::p4::v1::{ForwardingPipelineConfig, Uint128, Update};

use crate::pair::{DEVICE, PATIENCE};

const MAX_MESSAGE: usize = 64 << 20;

/// One switch under test, and the outcomes of all requests to it.
pub(crate) struct Subject {
    client: P4RuntimeClient<Channel>,
    /// The election id of writes.
    pub(crate) election_id: Option<u64>,
    pub(crate) outcomes: BTreeMap<&'static str, String>,
}

impl Subject {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let attempts = async {
            loop {
                match endpoint.connect().await {
                    Ok(channel) => break channel,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        let channel = timeout(PATIENCE, attempts).await.expect("the switch is up");
        let client = P4RuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Self { client, election_id: None, outcomes: BTreeMap::new() }
    }

    /// Records the outcome of a step.
    pub(crate) fn note(&mut self, step: &'static str, outcome: String) {
        assert_eq!(self.outcomes.insert(step, outcome), None, "two steps are called {step:?}");
    }

    pub(crate) async fn write(&mut self, step: &'static str, updates: Vec<Update>) {
        let outcome = self.try_write(updates).await;
        self.note(step, outcome);
    }

    /// Makes a write that must succeed.
    pub(crate) async fn prepare(&mut self, updates: Vec<Update>) {
        assert_eq!(self.try_write(updates).await, "Ok");
    }

    /// Makes a write that only one of the switches may need.
    pub(crate) async fn clean(&mut self, updates: Vec<Update>) {
        self.try_write(updates).await;
    }

    async fn try_write(&mut self, updates: Vec<Update>) -> String {
        let request = message::WriteRequest {
            device_id: DEVICE,
            election_id: self.election_id.map(id),
            updates,
            ..Default::default()
        };
        match self.client.write(request).await {
            Ok(_) => "Ok".to_owned(),
            Err(status) => told(&status),
        }
    }

    pub(crate) async fn read(&mut self, step: &'static str, entity: message::Entity) {
        self.read_of(step, DEVICE, vec![entity]).await;
    }

    pub(crate) async fn read_of(
        &mut self,
        step: &'static str,
        device_id: u64,
        entities: Vec<message::Entity>,
    ) {
        let outcome = match self.try_read(device_id, entities).await {
            Ok(found) => {
                let mut found: Vec<_> = found.iter().map(|entity| format!("{entity:?}")).collect();
                found.sort();
                format!("{} {}", found.len(), found.concat())
            }
            Err(status) => told(&status),
        };
        self.note(step, outcome);
    }

    async fn try_read(
        &mut self,
        device_id: u64,
        entities: Vec<message::Entity>,
    ) -> Result<Vec<message::Entity>, Status> {
        let request = message::ReadRequest { device_id, entities, ..Default::default() };
        let mut responses = self.client.read(request).await?.into_inner();
        let mut found = Vec::new();
        while let Some(response) = responses.message().await? {
            found.extend(response.entities);
        }
        Ok(found)
    }

    pub(crate) async fn set_pipeline(
        &mut self,
        step: &'static str,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) {
        let request = message::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: self.election_id.map(id),
            action: action.into(),
            config,
            ..Default::default()
        };
        let outcome = match self.client.set_forwarding_pipeline_config(request).await {
            Ok(_) => "Ok".to_owned(),
            Err(status) => told(&status),
        };
        self.note(step, outcome);
    }

    pub(crate) async fn get_pipeline(&mut self, step: &'static str, response_type: i32) {
        let request = message::GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type };
        let outcome = match self.client.get_forwarding_pipeline_config(request).await {
            Ok(response) => {
                let config = response.into_inner().config.unwrap_or_default();
                let (info, program) = (config.p4info.is_some(), !config.p4_device_config.is_empty());
                format!("P4Info: {info}, program: {program}, cookie: {:?}", config.cookie)
            }
            Err(status) => told(&status),
        };
        self.note(step, outcome);
    }

    pub(crate) async fn version(&mut self, step: &'static str) {
        let request = message::CapabilitiesRequest { device_id: DEVICE };
        let outcome = match self.client.capabilities(request).await {
            Ok(response) => response.into_inner().p4runtime_api_version,
            Err(status) => told(&status),
        };
        self.note(step, outcome);
    }

    /// Returns a new stream, on which nothing was sent yet.
    pub(crate) fn stream(&self) -> Stream {
        let (outgoing, requests) = mpsc::channel(16);
        let mut client = self.client.clone();
        // The call returns only with the first answer, because BMv2 sends no headers before.
        let call = async move { client.stream_channel(ReceiverStream::new(requests)).await };
        let call = tokio::spawn(async move { call.await.map(tonic::Response::into_inner) });
        Stream { outgoing, incoming: Incoming::Called(call) }
    }
}

type Called = tokio::task::JoinHandle<Result<Streaming<message::StreamMessageResponse>, Status>>;

enum Incoming {
    Called(Called),
    Open(Box<Streaming<message::StreamMessageResponse>>),
    Ended(Status),
}

/// One controller's stream.
pub(crate) struct Stream {
    outgoing: mpsc::Sender<message::StreamMessageRequest>,
    incoming: Incoming,
}

impl Stream {
    pub(crate) async fn send(&self, update: stream_message_request::Update) {
        // An error means that the switch has closed the stream. Its last messages are read next.
        let _ = self.outgoing.send(message::StreamMessageRequest { update: Some(update) }).await;
    }

    pub(crate) async fn claim(&self, device_id: u64, election_id: Option<u64>) {
        let election_id = election_id.map(id);
        let claim = message::MasterArbitrationUpdate { device_id, election_id, ..Default::default() };
        self.send(stream_message_request::Update::Arbitration(claim)).await;
    }

    /// Returns the switch's next message as text, or the reason for the end of the stream.
    pub(crate) async fn told(&mut self) -> String {
        match timeout(PATIENCE, self.next()).await.expect("the switch says something") {
            Ok(Some(Told::Arbitration(update))) => {
                let status = Code::from(update.status.map_or(0, |status| status.code));
                let primary = update.election_id.map_or(0, |id| id.low);
                format!("{status:?}, primary: {primary}")
            }
            Ok(Some(Told::Error(error))) => format!("refused: {:?}", Code::from(error.canonical_code)),
            Ok(other) => format!("{other:?}"),
            Err(status) => format!("closed: {:?}", status.code()),
        }
    }

    async fn next(&mut self) -> Result<Option<Told>, Status> {
        if let Incoming::Called(call) = &mut self.incoming {
            self.incoming = match call.await.unwrap() {
                Ok(open) => Incoming::Open(Box::new(open)),
                Err(status) => Incoming::Ended(status),
            };
        }
        match &mut self.incoming {
            Incoming::Open(open) => Ok(open.message().await?.and_then(|response| response.update)),
            Incoming::Ended(status) => Err(status.clone()),
            Incoming::Called(_) => unreachable!(),
        }
    }
}

fn id(low: u64) -> Uint128 {
    Uint128 { high: 0, low }
}

/// Formats a status as a short text: its code, and for a batch the code of each update.
fn told(status: &Status) -> String {
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    let code = |detail: &prost_types::Any| {
        let error: message::Error = detail.to_msg().unwrap();
        format!("{:?}", Code::from(error.canonical_code))
    };
    match details.iter().map(code).collect::<Vec<_>>().join(", ").as_str() {
        "" => format!("{:?}", status.code()),
        codes => format!("{:?}: {codes}", status.code()),
    }
}
