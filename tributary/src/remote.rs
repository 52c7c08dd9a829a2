//! The controller, as its clients reach it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tributary_api::v1::controller_client::ControllerClient;

/// Where the controller listens, and is looked for, unless told otherwise: the TCP port with the number of
/// the INA packets' UDP port.
pub(crate) const DEFAULT_CONTROLLER: &str = "127.0.0.1:29810";

/// A controller that does not answer for this long is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is silent this long is tried, and given up that much later.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The controller's API at `host:port`: the one place where connections to it are set up.
pub(crate) fn endpoint(address: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .with_context(|| format!("{address:?} is not the address of a controller: give HOST:PORT"))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .tcp_nodelay(true))
}

/// A connection to the controller.
///
/// # Errors
/// Nobody answers there.
pub(crate) async fn connect(address: &str) -> Result<ControllerClient<Channel>> {
    let channel = endpoint(address)?.connect().await;
    let channel = channel
        .with_context(|| format!("no controller at {address}: is it running, and is --controller right?"))?;
    Ok(ControllerClient::new(channel))
}

/// The controller's words, without what gRPC puts around them.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn refused(status: Status) -> anyhow::Error {
    anyhow!("{}", status.message())
}

/// Reads a job's token from a file that `tributary jobs create` wrote.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn read_token(file: &Path) -> Result<Vec<u8>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read the token in {}", file.display()))?;
    match hex::decode(text.trim()) {
        Ok(token) if !token.is_empty() => Ok(token),
        _ => bail!("{} holds no token: give the file that `tributary jobs create` wrote", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_and_anything_else_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.token");
        fs::write(&file, "00ff7f\n").unwrap();
        assert_eq!(read_token(&file).unwrap(), [0, 0xff, 0x7f]);
        for text in ["", "\n", "xyz", "0"] {
            fs::write(&file, text).unwrap();
            assert!(read_token(&file).unwrap_err().to_string().contains("job.token"));
        }
        assert!(read_token(&folder.path().join("none")).is_err());
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert!(endpoint("127.0.0.1:29810").is_ok() && endpoint("controller.example:1").is_ok());
        assert!(endpoint("no address").unwrap_err().to_string().contains("no address"));
    }
}
