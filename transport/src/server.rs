//! The server's side.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{ServerConfig, version};
use tokio_stream::wrappers::ReceiverStream;

use crate::connection::{Connection, HTTP2, Peer};
use crate::current::{self, Current, Loaded};
use crate::error::TlsError;
use crate::files::{TlsFiles, provider};
use crate::words;

/// A client that takes longer to show who it is goes without.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// A client that was turned away has this long, and may send this much, until it has read why.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);
const FAREWELL_BYTES: u64 = 64 * 1024;
/// After an error in accepting, such as having no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Accepted connections that nobody has taken yet.
const BACKLOG: usize = 16;

/// With what a server shows who it is, and knows its clients.
///
/// Clones share what was read from the files: all of them show what was read last.
#[derive(Debug, Clone)]
pub struct ServerTls {
    current: Current<ServerConfig>,
    files: TlsFiles,
}

impl ServerTls {
    /// Reads the server's files. Clients have to show a certificate that a CA in `files.ca` has signed.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { current: Current::new(read(&files)?), files })
    }

    /// Reads the files again, for connections from now on; those that there are stay as they are.
    ///
    /// # Errors
    /// [`TlsError`]: nothing has changed.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.replace(read(&self.files)?);
        Ok(())
    }
}

fn read(files: &TlsFiles) -> Result<Loaded<ServerConfig>, TlsError> {
    let credentials = files.load()?;
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
    // A resumed connection would outlive a certificate that has expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Loaded { config: Arc::new(config), expires })
}

/// The connections that clients open; with `tls` those on which both have accepted each other. Why one is turned
/// away is in the log. Ends when it is dropped.
///
/// Must be called in a tokio runtime.
pub fn incoming(
    listener: TcpListener,
    tls: Option<ServerTls>,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, accepted) = mpsc::channel(BACKLOG);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(&listener, tls, &sender) => {}
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(accepted)
}

async fn accept(
    listener: &TcpListener,
    tls: Option<ServerTls>,
    accepted: &mpsc::Sender<Result<Connection, io::Error>>,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small, and awaited.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "small packets may be late");
        }
        let (tls, accepted) = (tls.clone(), accepted.clone());
        // In a task of its own: one that is slow to show who it is must not keep the others waiting.
        tokio::spawn(async move {
            let connection = match tls {
                None => Some(Connection { stream: Box::new(stream), peer: Peer::unknown(address) }),
                Some(tls) => tls.handshake(stream, address).await,
            };
            if let Some(connection) = connection {
                // An error means that the server stops.
                let _ = accepted.send(Ok(connection)).await;
            }
        });
    }
}

impl ServerTls {
    async fn handshake(self, stream: TcpStream, address: SocketAddr) -> Option<Connection> {
        let handshake = TlsAcceptor::from(self.current.get().config).accept(stream).into_fallible();
        let refused = |reason: &str| tracing::warn!(%address, reason, "turned a client away");
        match timeout(HANDSHAKE_PATIENCE, handshake).await {
            Ok(Ok(stream)) => {
                let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let peer = match certificate {
                    Some(certificate) => Peer::with_certificate(address, certificate),
                    None => {
                        refused("it shows no certificate");
                        return None;
                    }
                };
                Some(Connection { stream: Box::new(stream), peer })
            }
            Ok(Err((error, stream))) => {
                match words::carried(&error) {
                    Some(error) => refused(&words::of_server(error, &self.files)),
                    // Gone before it has shown anything: a probe of the port, perhaps.
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

/// Closes a connection so that the client can read what was sent last: with unread bytes left the system would
/// reset it, and what was sent would be lost.
async fn farewell(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = (&mut stream).take(FAREWELL_BYTES);
    let _ = timeout(FAREWELL_PATIENCE, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
