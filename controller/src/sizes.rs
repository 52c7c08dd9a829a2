//! Size limits of requests.
//!
//! Finished slices, which members send, are large; all other requests are small.

use std::sync::Arc;

use tonic::metadata::MetadataMap;
use tributary_api::v1::controller_server::{ControllerServer, SERVICE_NAME};
use tributary_api::{JobCredentials, MAX_MESSAGE_BYTES};
use tributary_transport::{BySize, Size, method};

use crate::service::{Service, credentials, job_status};

/// The largest request other than finished slices; ten times the profile of a model of
/// ten thousand tensors.
const MAX_REQUEST: usize = 1 << 20;
/// The call that brings finished slices.
const ANSWER: &str = "Answer";

/// The controller's service, which takes large messages only where a member of a job
/// brings finished slices.
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
