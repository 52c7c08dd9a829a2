//! Connections to the controller.

use anyhow::{Result, anyhow, bail};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::Remote;

/// Connects to a controller.
///
/// # Errors
/// No answer, something other than a controller, or one of the two does not trust the other.
pub async fn connect(controller: &Remote) -> Result<ControllerClient<Channel>> {
    let mut client = ControllerClient::new(controller.connect().await?);
    // Anything may listen at an address, such as a switch, which would answer unknown calls without an explanation.
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

/// Returns true if the server is not a controller: it does not know the call, or does not speak gRPC.
fn is_another(code: Code) -> bool {
    matches!(code, Code::Unimplemented | Code::Unknown | Code::Internal)
}

/// The controller's message, without gRPC's additions.
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
