//! Programs are large, and all other requests small: what may be sent for one of the others is bounded by that.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::codegen::http::{Request, Response};
use tributary_p4runtime::p4::v1::p4_runtime_server::{P4RuntimeServer, SERVICE_NAME};

use super::service::Service;

/// The largest program with its P4Info, in bytes: that of a switch for data centres has some.
const MAX_PROGRAM: usize = 32 << 20;
/// The largest request of any other kind: what gRPC allows where nobody says anything else.
const MAX_REQUEST: usize = 4 << 20;
/// The call that brings a program.
const SET_PROGRAM: &str = "SetForwardingPipelineConfig";

/// The P4Runtime service, twice: with room for programs, and without.
#[derive(Clone)]
pub(super) struct BySize {
    large: P4RuntimeServer<Service>,
    small: P4RuntimeServer<Service>,
}

impl BySize {
    pub(super) fn new(service: Service) -> Self {
        let service = Arc::new(service);
        let large = P4RuntimeServer::from_arc(Arc::clone(&service)).max_decoding_message_size(MAX_PROGRAM);
        let small = P4RuntimeServer::from_arc(service).max_decoding_message_size(MAX_REQUEST);
        Self { large, small }
    }
}

impl tower::Service<Request<Body>> for BySize {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.uri().path().strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
        match method.and_then(|method| method.strip_prefix('/')) {
            Some(SET_PROGRAM) => self.large.call(request),
            _ => self.small.call(request),
        }
    }
}
