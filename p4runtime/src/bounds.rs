//! How many fields the messages may have that come off the wire.

use tributary_transport::bounded;

use crate::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, WriteRequest,
    WriteResponse,
};

/// Requests come from anyone: the most is what a P4Info of thousands of tables has, or a batch of thousands of updates.
const OF_REQUEST: usize = 1 << 18;
/// Responses come from whom one has asked: simple_switch_grpc puts all that is read into a single one.
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
