//! The controller, as commands talk to it.

use anyhow::{Result, anyhow, bail};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::Remote;

/// A connection to a controller.
///
/// # Errors
/// Nobody answers there, it is no controller, or one of the two does not trust the other.
pub async fn connect(controller: &Remote) -> Result<ControllerClient<Channel>> {
    let mut client = ControllerClient::new(controller.connect().await?);
    // Anything may listen at an address, a switch for one, and would answer calls that it does not know without a word.
    match client.get_controller(v1::GetControllerRequest {}).await {
        Err(status) if is_another(status.code()) => bail!(
            "what listens at {} is no controller: is --controller right? A switch's P4Runtime server and a parameter \
             server have ports of their own ({})",
            controller.address(),
            reason(&status)
        ),
        // What else can be wrong the call itself says that this is for.
        Ok(_) | Err(_) => Ok(client),
    }
}

/// Whether this is how something that is no controller answers a call of the controller's: it does not know it, or does
/// not speak gRPC.
fn is_another(code: Code) -> bool {
    matches!(code, Code::Unimplemented | Code::Unknown | Code::Internal)
}

/// The controller's words, without what gRPC puts around them.
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
