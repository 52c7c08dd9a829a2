//! Size limits of requests.
//!
//! Members send finished slices, which are large. All other requests are small.

use std::sync::Arc;

use tonic::metadata::MetadataMap;
use tributary_api::v1::controller_server::{ControllerServer, SERVICE_NAME};
use tributary_api::{JobCredentials, MAX_MESSAGE_BYTES};
use tributary_transport::{BySize, Size, method};

use crate::service::{Service, credentials, job_status};

/// The maximum size of requests without finished slices, in bytes.
/// It is ten times the size of a profile of a model with ten thousand tensors.
const MAX_REQUEST: usize = 1 << 20;
/// The name of the call that transfers finished slices.
const ANSWER: &str = "Answer";

/// Wraps the controller's service in a size limit.
/// Only the call [`ANSWER`] accepts large messages, and only with the job's token.
pub(crate) fn by_size(service: Service) -> BySize<ControllerServer<Service>> {
    let service = Arc::new(service);
    let manager = Arc::clone(&service.manager);
    let large = ControllerServer::from_arc(Arc::clone(&service)).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let small = ControllerServer::from_arc(service).max_decoding_message_size(MAX_REQUEST);
    BySize::new(small, large, move |request| match method(request, SERVICE_NAME) {
        Some(ANSWER) => {
            let JobCredentials { job, token } =
                credentials(&MetadataMap::from_headers(request.headers().clone()))?;
            manager.state().jobs.authorize(&job, &token).map_err(job_status)?;
            Ok(Size::Large)
        }
        _ => Ok(Size::Small),
    })
}
