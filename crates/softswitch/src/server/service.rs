//! The calls of the P4Runtime service.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse, get_forwarding_pipeline_config_request::ResponseType, write_request::Atomicity,
};

use super::device::{Device, MAILBOX, Mailbox, carry_through};
use super::operation::Operation;
use super::query::Query;
use super::status;
use super::write::carry_out_batch;
use super::{answer, pipeline_config, stream};

/// The implemented version of P4Runtime.
const API_VERSION: &str = "1.4.1";
/// The maximum number of patterns of one Read.
const MOST_PATTERNS: usize = 1000;

/// The P4Runtime service, as tonic serves it.
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
        no_role_id(request.role_id)?;
        let primacy = self.device.require_primary(&request.role, request.election_id.as_ref()).await?;
        let programs = Arc::clone(&self.device.programs).read_owned().await;
        let program = programs.current()?;
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument(format!("there is no atomicity {}", request.atomicity)))?;
        let planned: Vec<_> =
            request.updates.into_iter().map(|update| Operation::plan(update, program.p4info())).collect();
        let control = self.device.control.clone();
        let results = carry_through(async move {
            let _primacy = primacy;
            programs.run(&control, move |switch| carry_out_batch(planned, atomicity, switch)).await
        });
        status::of_batch(&results.await?)?;
        Ok(Response::new(WriteResponse {}))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        if request.entities.len() > MOST_PATTERNS {
            let said = format!("{} patterns: {MOST_PATTERNS} are the most", request.entities.len());
            return Err(Status::invalid_argument(said));
        }
        let place = self.device.readers.enter()?;
        let program = Arc::clone(self.device.programs.read().await.current()?);
        let queries = request.entities.into_iter().map(|pattern| Query::plan(pattern, program.p4info()));
        let queries = queries.collect();
        let answer = answer::answer(Arc::clone(&self.device), program, queries, place).await?;
        Ok(Response::new(Box::pin(answer)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        self.device.check_id(request.device_id)?;
        no_role_id(request.role_id)?;
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
        let program = programs.current().ok();
        let config = program.map(|program| pipeline_config::get(program, part));
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
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
        // In versions before 1.5, this request does not name the device.
        let id = request.into_inner().device_id;
        if id != 0 {
            self.device.check_id(id)?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}

/// Refuses a role id, the older form of naming a role.
fn no_role_id(id: u64) -> Result<(), Status> {
    if id == 0 {
        return Ok(());
    }
    Err(Status::not_found(format!("there is no role {id} here: roles have names, and no ids")))
}
