//! An accepted connection and its peer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use crate::connection_limit::Permit;
use crate::names::Names;

/// The time limit for a client's first bytes, which show that it uses HTTP/2. After these bytes,
/// HTTP/2 itself detects a lost client.
const PREFACE_PATIENCE: Duration = Duration::from_secs(10);
/// The number of bytes with which every HTTP/2 client begins.
const PREFACE_BYTES: usize = 24;

/// A TCP stream, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that a client has opened.
pub struct Connection {
    stream: Box<dyn Stream>,
    peer: Peer,
    /// The state of the HTTP/2 preface; `None` after the client has sent all of it.
    preface: Option<Preface>,
    /// The connection's permit. Dropping it makes room for another connection.
    _place: Permit,
}

struct Preface {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Connection {
    /// Wraps an accepted stream. Must be called in a tokio runtime.
    pub(crate) fn new(stream: Box<dyn Stream>, peer: Peer, place: Permit) -> Self {
        let deadline = Box::pin(sleep(PREFACE_PATIENCE));
        Self { stream, peer, preface: Some(Preface { missing: PREFACE_BYTES, deadline }), _place: place }
    }
}

/// The other end of a [`Connection`]. A service finds it in a request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    address: SocketAddr,
    /// The names in the peer's certificate; `None` if the connection is plain text, without certificates.
    names: Option<Names>,
}

impl Peer {
    /// Creates a peer. `names` must be from a verified certificate.
    pub(crate) fn new(address: SocketAddr, names: Option<Names>) -> Self {
        Self { address, names }
    }

    /// Returns the peer's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the names in the peer's certificate; `None` if the connection is plain text.
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(preface) = &mut self.preface else { return read };
        preface.missing = preface.missing.saturating_sub(buffer.filled().len() - before);
        if preface.missing == 0 {
            self.preface = None;
        } else if read.is_pending() && preface.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")));
        }
        read
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
