//! Limits on the number of fields in messages from the wire.

use tributary_transport::bounded;

use crate::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse,
};

/// Requests come from anyone: enough for a P4Info of thousands of tables, or a batch of
/// thousands of updates.
const OF_REQUEST: usize = 1 << 18;
/// Responses come from a peer of our choice: simple_switch_grpc puts everything that is
/// read into a single one.
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
