//! TLS options: the files of the controller, and the files of its clients and other daemons.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_controller::ControllerTls;
use tributary_transport::{ClientTls, ServerTls, TlsFiles};

use crate::daemons::service::WrongUse;

/// The default name in the certificates of operators, who may create and end all jobs.
pub(crate) const DEFAULT_OPERATOR: &str = "operator";

/// The files of a client of the controller or of a parameter server; a parameter server
/// itself has the same.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClientTlsArgs {
    /// Certificate of the CA that has signed all other certificates: enables TLS, with the two options
    /// below [default: plain text]
    #[arg(long, global = true, value_name = "FILE", env = "TRIBUTARY_TLS_CA")]
    tls_ca: Option<PathBuf>,

    /// Certificate to present
    #[arg(long, global = true, value_name = "FILE", env = "TRIBUTARY_TLS_CERT")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key
    #[arg(long, global = true, value_name = "FILE", env = "TRIBUTARY_TLS_KEY")]
    tls_key: Option<PathBuf>,
}

impl ClientTlsArgs {
    /// Returns the given files; `None` for plain text.
    ///
    /// # Errors
    /// [`WrongUse`]: only some files were given.
    pub(crate) fn files(&self) -> Result<Option<TlsFiles>> {
        let files =
            [("--tls-ca", &self.tls_ca), ("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key)];
        Ok(all_or_none(files)?.map(|[ca, certificate, key]| TlsFiles { certificate, key, ca }))
    }

    /// Loads the files; `None` for plain text.
    ///
    /// # Errors
    /// [`WrongUse`] if only some files were given; or a file cannot be used.
    pub(crate) fn load(&self) -> Result<Option<ClientTls>> {
        Ok(self.files()?.map(ClientTls::load).transpose()?)
    }

    /// Loads the files as [`load`](Self::load) does, and returns a server's configuration.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load).
    pub(crate) fn load_server(&self) -> Result<Option<ServerTls>> {
        Ok(self.files()?.map(ServerTls::load).transpose()?)
    }
}

/// The controller's files, and who may do what.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ControllerTlsArgs {
    /// Certificate to present to agents and `tributary jobs`: enables TLS, with the two options below
    /// [default: plain text]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Certificate of the CA that has signed the certificates of agents and operators: clients without such
    /// a certificate cannot connect
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,

    /// Operator, who may create and end all jobs: a DNS name in the certificate; may be repeated [default:
    /// operator]
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tls_operator: Vec<String>,
}

impl ControllerTlsArgs {
    /// Loads the files; `None` for plain text.
    ///
    /// # Errors
    /// [`WrongUse`] if only some files were given; or a file cannot be used.
    pub(crate) fn load(&self) -> Result<Option<ControllerTls>> {
        let files = [
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--tls-client-ca", &self.tls_client_ca),
        ];
        let Some([certificate, key, ca]) = all_or_none(files)? else {
            if self.tls_operator.is_empty() {
                return Ok(None);
            }
            let problem = "--tls-operator needs --tls-cert, --tls-key and --tls-client-ca: without certificates, \
                           clients have no names";
            return Err(WrongUse(problem.to_owned()).into());
        };
        let operators = match &self.tls_operator[..] {
            [] => BTreeSet::from([DEFAULT_OPERATOR.to_owned()]),
            given => given.iter().cloned().collect(),
        };
        Ok(Some(ControllerTls { server: ServerTls::load(TlsFiles { certificate, key, ca })?, operators }))
    }
}

/// Returns all files, or `None` if none were given.
///
/// # Errors
/// [`WrongUse`]: some files are missing.
fn all_or_none<const N: usize>(files: [(&str, &Option<PathBuf>); N]) -> Result<Option<[PathBuf; N]>> {
    let missing: Vec<_> = files.iter().filter(|(_, file)| file.is_none()).map(|(name, _)| *name).collect();
    if missing.len() == N {
        return Ok(None);
    }
    if missing.is_empty() {
        return Ok(Some(files.map(|(_, file)| file.clone().unwrap_or_default())));
    }
    let all = files.map(|(name, _)| name).join(", ");
    let problem = format!("TLS needs all of {all}; missing: {}", missing.join(", "));
    Err(WrongUse(problem).into())
}
