//! An accepted connection, and who is at its other end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::names::Names;

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
    /// `names`: those of a certificate that was shown, and verified.
    pub(crate) fn new(address: SocketAddr, names: Option<Names>) -> Self {
        Self { address, names }
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
