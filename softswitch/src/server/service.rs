//! The calls of the P4Runtime service.

use std::pin::Pin;
use std::sync::Arc;

use prost::Message;
use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, Entity, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse, get_forwarding_pipeline_config_request::ResponseType, write_request::Atomicity,
};

use super::device::{Device, MAILBOX, Mailbox, carry_through};
use super::read::{Found, Query};
use super::status::{self, Refusal};
use super::write::Operation;
use super::{pipeline_config, stream};
use crate::switch::Switch;

/// The version of P4Runtime whose messages and rules these are.
const API_VERSION: &str = "1.4.1";
/// Most clients refuse messages above 4 MiB.
const RESPONSE_BYTES: usize = 1 << 20;

/// What tonic serves.
pub(super) struct Service {
    device: Arc<Device>,
}

impl Service {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Self { device }
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Responses<ReadResponse>;
    type StreamChannelStream = Responses<StreamMessageResponse>;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        let primacy = self.device.require_primary(&request.role, request.election_id.as_ref()).await?;
        let programs = Arc::clone(&self.device.programs).read_owned().await;
        let program = programs.current()?;
        if request.atomicity() != Atomicity::ContinueOnError {
            return Err(Status::unimplemented(
                "batches are carried out update by update: use CONTINUE_ON_ERROR",
            ));
        }
        let planned: Vec<_> =
            request.updates.into_iter().map(|update| Operation::plan(update, program.p4info())).collect();
        let control = self.device.control.clone();
        let results = carry_through(async move {
            let _primacy = primacy;
            programs.run(&control, move |switch| carry_out(planned, switch)).await
        });
        status::of_batch(&results.await?)?;
        Ok(Response::new(WriteResponse {}))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        let programs = self.device.programs.read().await;
        let program = programs.current()?;
        let queries = request.entities.into_iter().map(|pattern| Query::plan(pattern, program.p4info()));
        let queries = queries.collect::<Result<Vec<_>, _>>()?;
        let found = programs.run(&self.device.control, move |switch| gather(&queries, switch)).await??;
        let entities = found.into_iter().flat_map(Found::into_entities);
        let responses = chunks(entities).into_iter().map(|entities| Ok(ReadResponse { entities }));
        Ok(Response::new(Box::pin(tokio_stream::iter(responses))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        let primacy = self.device.require_primary(&request.role, request.election_id.as_ref()).await?;
        let action = Action::try_from(request.action)
            .map_err(|_| Status::invalid_argument(format!("there is no action {}", request.action)))?;
        pipeline_config::set(&self.device, primacy, action, request.config).await?;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        let part = ResponseType::try_from(request.response_type).map_err(|_| {
            Status::invalid_argument(format!("there is no response type {}", request.response_type))
        })?;
        let programs = self.device.programs.read().await;
        let config = pipeline_config::get(programs.current()?, part);
        Ok(Response::new(GetForwardingPipelineConfigResponse { config: Some(config) }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (sender, responses) = mpsc::channel(MAILBOX);
        let mailbox = Mailbox { sender, end: Arc::new(Notify::new()) };
        tokio::spawn(stream::serve(self.device.clone(), request.into_inner(), mailbox));
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        // Before version 1.5 nobody says which device.
        let id = request.into_inner().device_id;
        if id != 0 {
            self.device.check_id(id)?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}

/// In order, each whatever became of those before.
fn carry_out(planned: Vec<Result<Operation, Refusal>>, switch: &mut Switch) -> Vec<Result<(), Refusal>> {
    planned.into_iter().map(|operation| operation?.carry_out(switch).map_err(Refusal::from)).collect()
}

fn gather(queries: &[Query], switch: &Switch) -> Result<Vec<Found>, Refusal> {
    let mut found = Vec::new();
    for query in queries {
        found.extend(query.gather(switch)?);
    }
    Ok(found)
}

/// As few responses as the message size allows, but always one: clients of BMv2 expect it.
fn chunks(entities: impl Iterator<Item = Entity>) -> Vec<Vec<Entity>> {
    let mut chunks = vec![Vec::new()];
    let mut filled = 0;
    for entity in entities {
        // The tag and length of a repeated message take at most 6 bytes at these sizes.
        let size = entity.encoded_len() + 6;
        if filled + size > RESPONSE_BYTES && filled > 0 {
            chunks.push(Vec::new());
            filled = 0;
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(entity);
        }
        filled += size;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use tributary_p4runtime::p4::v1::{TableEntry, entity};

    use super::*;

    fn entity(metadata: usize) -> Entity {
        let entry = TableEntry { metadata: vec![7; metadata], ..TableEntry::default() };
        Entity { entity: Some(entity::Entity::TableEntry(entry)) }
    }

    #[test]
    fn a_long_answer_comes_in_several_messages_in_order() {
        let entities: Vec<_> = (0..5000).map(|n| entity(n % 700)).collect();
        let chunks = chunks(entities.clone().into_iter());
        assert!(chunks.len() > 1);
        for entities in &chunks {
            assert!(ReadResponse { entities: entities.clone() }.encoded_len() <= RESPONSE_BYTES);
        }
        assert_eq!(chunks.concat(), entities);
    }

    #[test]
    fn an_empty_answer_is_one_message() {
        assert_eq!(chunks(std::iter::empty()), [Vec::new()]);
    }

    #[test]
    fn an_entity_above_the_limit_goes_alone() {
        let sizes: Vec<_> = chunks([entity(1), entity(2 * RESPONSE_BYTES), entity(1)].into_iter())
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes, [1, 1, 1]);
    }
}
