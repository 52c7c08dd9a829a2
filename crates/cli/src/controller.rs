//! Connections of commands to the controller.

use anyhow::{Result, anyhow, bail};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::Remote;

/// Connects to a controller.
///
/// # Errors
/// The address does not answer, the server is not a controller, or the TLS authentication failed.
pub async fn connect(controller: &Remote) -> Result<ControllerClient<Channel>> {
    let mut client = ControllerClient::new(controller.connect().await?);
    // The call detects other servers, such as a switch, which would answer unknown calls without an
    // explanation.
    match client.get_controller(v1::GetControllerRequest {}).await {
        Err(status) if is_another(status.code()) => bail!(
            "what listens at {} is no controller: is --controller right? A switch's P4Runtime server and a parameter \
             server have ports of their own ({})",
            controller.address(),
            reason(&status)
        ),
        // The actual call will report any other problem.
        Ok(_) | Err(_) => Ok(client),
    }
}

/// Returns true if the code shows that the server is not a controller. Such a server does not implement
/// the call, or does not use gRPC.
fn is_another(code: Code) -> bool {
    matches!(code, Code::Unimplemented | Code::Unknown | Code::Internal)
}

/// Returns an error with the controller's message, without the text that gRPC adds.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn refused(status: Status) -> anyhow::Error {
    anyhow!("{}", reason(&status))
}

fn reason(status: &Status) -> String {
    match status.message() {
        "" => format!("it answers {:?}, without a reason", status.code()),
        reason => reason.to_owned(),
    }
}
