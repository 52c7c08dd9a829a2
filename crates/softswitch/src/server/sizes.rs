//! Limits on the size of requests. A program is large, while all other requests are small.

use std::sync::Arc;

use tributary_p4runtime::p4::v1::p4_runtime_server::{P4RuntimeServer, SERVICE_NAME};
use tributary_transport::{BySize, Size, method};

use super::service::Service;

/// The largest program with its P4Info, in bytes: programs for data-centre switches are large.
const MAX_PROGRAM: usize = 32 << 20;
/// The largest request of any other kind, in bytes. This is gRPC's default.
const MAX_REQUEST: usize = 4 << 20;
/// The call that carries a program.
const SET_PROGRAM: &str = "SetForwardingPipelineConfig";

/// Returns the P4Runtime service, with a larger limit for the call that carries a program.
pub(super) fn by_size(service: Service) -> BySize<P4RuntimeServer<Service>> {
    let service = Arc::new(service);
    let large = P4RuntimeServer::from_arc(Arc::clone(&service)).max_decoding_message_size(MAX_PROGRAM);
    let small = P4RuntimeServer::from_arc(service).max_decoding_message_size(MAX_REQUEST);
    BySize::new(small, large, |request| match method(request, SERVICE_NAME) {
        Some(SET_PROGRAM) => Ok(Size::Large),
        _ => Ok(Size::Small),
    })
}
