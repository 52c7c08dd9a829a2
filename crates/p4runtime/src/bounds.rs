//! Limits on the number of fields in received messages.

use tributary_transport::bounded;

use crate::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse,
};

/// The maximum for a request, because any client can send requests. It is enough for a P4Info of
/// thousands of tables, or a batch of thousands of updates.
const OF_REQUEST: usize = 1 << 18;
/// The maximum for a response. It is larger because the client chooses its server, and
/// simple_switch_grpc puts everything that it reads into a single response.
const OF_RESPONSE: usize = 1 << 24;

bounded!(
    OF_REQUEST;
    CapabilitiesRequest,
    GetForwardingPipelineConfigRequest,
    ReadRequest,
    SetForwardingPipelineConfigRequest,
    StreamMessageRequest,
    WriteRequest,
);
bounded!(
    OF_RESPONSE;
    CapabilitiesResponse,
    GetForwardingPipelineConfigResponse,
    ReadResponse,
    SetForwardingPipelineConfigResponse,
    StreamMessageResponse,
    WriteResponse,
);
