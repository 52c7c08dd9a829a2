//! The controller, as commands talk to it.

use anyhow::{Result, anyhow};
use tonic::Status;
use tonic::transport::Channel;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::Remote;

/// A connection to a controller.
///
/// # Errors
/// Nobody answers there, or one of the two does not trust the other.
pub async fn connect(controller: &Remote) -> Result<ControllerClient<Channel>> {
    Ok(ControllerClient::new(controller.connect().await?))
}

/// The controller's words, without what gRPC puts around them.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn refused(status: Status) -> anyhow::Error {
    anyhow!("{}", status.message())
}
