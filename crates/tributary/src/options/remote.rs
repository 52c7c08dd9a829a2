//! Options for the connection to the controller.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use tonic::transport::Channel;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_transport::Remote;

use crate::files;
use crate::options::tls::ClientTlsArgs;

pub(crate) use tributary_cli::controller::{connect, refused};

/// The controller's default address. Its TCP port has the same number as the UDP port of the INA
/// packets.
pub(crate) const DEFAULT_CONTROLLER: &str = "127.0.0.1:29810";

/// Options for commands that make single requests to the controller.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The controller's address
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        env = "TRIBUTARY_CONTROLLER",
        default_value = DEFAULT_CONTROLLER
    )]
    controller: String,

    #[command(flatten)]
    tls: ClientTlsArgs,
}

impl ControllerArgs {
    /// Connects to the controller.
    ///
    /// # Errors
    /// The certificates cannot be used, the controller does not answer, or the TLS authentication failed.
    pub(crate) async fn connect(&self) -> Result<ControllerClient<Channel>> {
        connect(&self.remote()?).await
    }

    /// Returns the controller's address and certificates, without connecting.
    ///
    /// # Errors
    /// The certificates cannot be used, or the address is invalid.
    pub(crate) fn remote(&self) -> Result<Remote> {
        Ok(Remote::controller(&self.controller, self.tls.load()?)?)
    }
}

/// Reads a job's token from a file that `tributary jobs create` wrote.
///
/// # Errors
/// The file cannot be read, or contains no token.
pub(crate) fn read_token(file: &Path) -> Result<Vec<u8>> {
    let text = files::read_secret(file)
        .context("there is no token: give the file that `tributary jobs create` wrote")?;
    match hex::decode(text.trim()) {
        Ok(token) if !token.is_empty() => Ok(token),
        _ => bail!("{} holds no token: give the file that `tributary jobs create` wrote", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
}
