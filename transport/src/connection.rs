//! An accepted connection, and who is at its other end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::transport::server::Connected;
use webpki::EndEntityCert;

use crate::names::Names;

/// What gRPC is called when TLS negotiates what is spoken.
pub(crate) const HTTP2: &[u8] = b"h2";

/// TCP, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that a client has opened.
pub struct Connection {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) peer: Peer,
}

/// Who is at the other end of a [`Connection`]. A service finds it among a request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    address: SocketAddr,
    /// `None`: plain text, where nobody shows anything.
    names: Option<Names>,
}

impl Peer {
    pub(crate) fn unknown(address: SocketAddr) -> Self {
        Self { address, names: None }
    }

    /// Whoever has shown this certificate, which was verified.
    pub(crate) fn with_certificate(address: SocketAddr, certificate: &CertificateDer<'_>) -> Self {
        // A certificate without names is for nobody.
        let names = EndEntityCert::try_from(certificate)
            .map(|certificate| certificate.valid_dns_names().collect::<Names>());
        Self { address, names: Some(names.unwrap_or_default()) }
    }

    /// Where it connects from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The names in its certificate; `None` where the connection is in plain text.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
