//! The client's side of TLS.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, version};

use super::certificate_check::{self, Usage};
use super::current::{self, Current, Loaded};
use super::error::TlsError;
use super::files::{TlsFiles, provider};
use super::{HTTP2, messages};
use crate::cause::carried;
use crate::connection::Stream;
use crate::service::Service;

/// A client's certificate and key, and the CA certificates that it trusts.
///
/// Clones share the contents of the files, so a reload takes effect in all clones.
#[derive(Debug, Clone)]
pub struct ClientTls {
    current: Current<ClientConfig>,
    files: TlsFiles,
    /// The host whose name the certificate must have; `None` for any host.
    host: Option<String>,
}

impl ClientTls {
    /// Reads the client's files.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Self::load_for(files, None)
    }

    /// Reads the files of a host that takes part in jobs. The certificate must have the name `host`, now
    /// and at each reload.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used, or if the certificate belongs to another host.
    pub fn load_of_host(files: TlsFiles, host: &str) -> Result<Self, TlsError> {
        Self::load_for(files, Some(host.to_owned()))
    }

    fn load_for(files: TlsFiles, host: Option<String>) -> Result<Self, TlsError> {
        Ok(Self { current: Current::new(read(&files, host.as_deref())?), files, host })
    }

    /// Reads the files again, for future connections. Present connections do not change.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used; then nothing changes.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.replace(read(&self.files, self.host.as_deref())?);
        Ok(())
    }

    /// Returns the time at which the certificate expires, in seconds since 1970; `None` if it cannot be
    /// read.
    pub fn expires(&self) -> Option<u64> {
        self.current.get().expires
    }

    /// Returns the files with the certificate and the key.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Returns true if a certificate can contain this host, which must be a DNS name or an address.
    pub(crate) fn can_verify(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    /// Opens TLS on a connection to `host`. The server's certificate must contain `host`.
    pub(crate) async fn open(&self, stream: TcpStream, host: &str) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.handshake(stream, host).await?))
    }

    /// Returns the time at which the certificate of the server `host` expires, in seconds since 1970.
    pub(crate) async fn served_expires(&self, stream: TcpStream, host: &str) -> io::Result<Option<u64>> {
        let stream = self.handshake(stream, host).await?;
        Ok(stream.get_ref().1.peer_certificates().and_then(current::expires))
    }

    async fn handshake(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        TlsConnector::from(self.current.get().config).connect(name, stream).await
    }

    /// Returns the reason why `service` and this client cannot connect, if TLS is the cause.
    pub(crate) fn explain(
        &self,
        error: &(dyn std::error::Error + 'static),
        service: Service,
    ) -> Option<String> {
        carried(error).map(|error| messages::of_client(error, service, &self.files))
    }
}

fn read(files: &TlsFiles, host: Option<&str>) -> Result<Loaded<ClientConfig>, TlsError> {
    let credentials = files.load()?;
    certificate_check::check(files, &credentials, Usage::Client)?;
    if let Some(host) = host {
        certificate_check::check_host(files, &credentials, host)?;
    }
    let expires = current::expires(&credentials.chain);
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| files.unusable(error))?
        .with_root_certificates(credentials.roots)
        .with_client_auth_cert(credentials.chain, credentials.key);
    let mut config = config.map_err(|error| files.unusable(error))?;
    config.alpn_protocols.push(HTTP2.to_vec());
    Ok(Loaded { config: Arc::new(config), expires })
}
