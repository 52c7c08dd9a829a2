//! The server's side of TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{ServerConfig, version};

use super::certificate_check::{self, Usage};
use super::current::{self, Current, Loaded};
use super::error::TlsError;
use super::files::{TlsFiles, provider};
use super::{HTTP2, messages, names_of};
use crate::cause::carried;
use crate::connection::{Peer, Stream};

/// Time that a client may take for the handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for a refused client to read the reason, and the limit of its bytes in that time.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 64 * 1024;

/// A server's certificate and key, and the CA certificates that it trusts.
///
/// Clones share the contents of the files, so a reload takes effect in all clones.
#[derive(Debug, Clone)]
pub struct ServerTls {
    current: Current<ServerConfig>,
    files: TlsFiles,
}

impl ServerTls {
    /// Reads the server's files. Clients must show a certificate that a CA in `files.ca` has signed.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { current: Current::new(read(&files)?), files })
    }

    /// Reads the files again, for future connections. Present connections do not change.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used; then nothing changes.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.replace(read(&self.files)?);
        Ok(())
    }
}

fn read(files: &TlsFiles) -> Result<Loaded<ServerConfig>, TlsError> {
    let credentials = files.load()?;
    certificate_check::check(files, &credentials, Usage::Server)?;
    let expires = current::expires(&credentials.chain);
    let verifier = WebPkiClientVerifier::builder_with_provider(credentials.roots, provider())
        .build()
        .map_err(|error| TlsError::Verifier { path: files.ca.clone(), problem: error.to_string() })?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| files.unusable(error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(credentials.chain, credentials.key);
    let mut config = config.map_err(|error| files.unusable(error))?;
    config.alpn_protocols.push(HTTP2.to_vec());
    // A resumed connection could continue to use a certificate that has expired in the meantime.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Loaded { config: Arc::new(config), expires })
}

impl ServerTls {
    /// Opens TLS on a connection. `None` if the client was refused; the log has the reason.
    pub(crate) async fn handshake(
        self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> Option<(Box<dyn Stream>, Peer)> {
        let handshake = TlsAcceptor::from(self.current.get().config).accept(stream).into_fallible();
        let refused = |reason: &str| tracing::warn!(%address, reason, "turned a client away");
        match timeout(HANDSHAKE_PATIENCE, handshake).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let peer = match certificate {
                    Some(certificate) => Peer::new(address, Some(names_of(certificate))),
                    None => {
                        refused("it shows no certificate");
                        return None;
                    }
                };
                Some((Box::new(stream), peer))
            }
            Ok(Err((error, stream))) => {
                match carried(&error) {
                    Some(error) => refused(&messages::of_server(error, &self.files)),
                    // The client has gone before it has shown anything; it may be a port scan.
                    None => tracing::debug!(%address, %error, "a client gave up"),
                }
                farewell(stream).await;
                None
            }
            Err(_) => {
                refused("it is too slow to show who it is");
                None
            }
        }
    }
}

/// Closes a connection so that the client can read the last data. If the server closed the socket
/// with unread bytes, the system would reset the connection, and the client would not receive the last data.
async fn farewell(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = (&mut stream).take(FAREWELL_BYTES);
    let _ = timeout(FAREWELL_PATIENCE, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
