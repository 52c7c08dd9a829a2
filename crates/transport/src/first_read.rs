//! The first bytes that the other side of a connection sends.
//!
//! In TLS 1.3, a client has finished the handshake before the server has checked the client's certificate. If the
//! server refuses the certificate, the refusal is the first thing that the client reads. If the server accepts it, an
//! HTTP/2 server also sends something first. So the client waits for the first bytes to learn the outcome. Otherwise a
//! later request would fail with a broken connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The first byte of a TLS record with an alert. A server's first HTTP/2 frame never begins with it.
const TLS_ALERT: u8 = 0x15;

/// The error that the other side answers a plain-text connection in TLS.
#[derive(Debug, Error)]
#[error("it demands TLS: give --tls-ca, --tls-cert and --tls-key")]
pub(crate) struct DemandsTls;

/// A connection that reports the outcome of its first read.
pub(crate) struct FirstRead<S> {
    stream: S,
    /// The channel for the outcome; `None` after the outcome was reported.
    tell: Option<oneshot::Sender<io::Result<()>>>,
}

impl<S> FirstRead<S> {
    pub(crate) fn new(stream: S, tell: Option<oneshot::Sender<io::Result<()>>>) -> Self {
        Self { stream, tell }
    }

    /// Reports the outcome of the first read, and returns it to the reader.
    fn told(&mut self, read: io::Result<u8>) -> io::Result<()> {
        let Some(tell) = self.tell.take() else { return read.map(drop) };
        let (answer, outcome) = match read {
            Ok(TLS_ALERT) => {
                let refused = || io::Error::new(io::ErrorKind::InvalidData, DemandsTls);
                (Err(refused()), Err(refused()))
            }
            Ok(_) => (Ok(()), Ok(())),
            Err(error) => {
                let copy = io::Error::new(error.kind(), error.to_string());
                (Err(error), Err(copy))
            }
        };
        // The receiver may already be dropped.
        let _ = tell.send(answer);
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstRead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if self.tell.is_none() {
            return Poll::Ready(read);
        }
        let first = buffer.filled().get(before).copied();
        let closed = || io::Error::new(io::ErrorKind::UnexpectedEof, "it closes the connection");
        Poll::Ready(self.told(read.and_then(|()| first.ok_or_else(closed))))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstRead<S> {
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
