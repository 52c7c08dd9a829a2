//! The connections of training processes, limited by the agent's budget.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

use super::budget::{Budget, LimitError, Permit, Resource};

/// The most calls that one connection may have under way.
pub(super) const STREAMS: u32 = 128;
/// The most bytes of a call's headers.
pub(super) const HEADER_BYTES: u32 = 8 << 10;
/// The most bytes of unread requests, both of one call and of a whole connection.
pub(super) const WINDOW_BYTES: u32 = 64 << 10;
/// The longest request in bytes: requests hold names, tokens and numbers, but no tensors.
pub(super) const MESSAGE_BYTES: usize = 32 << 10;
/// The most memory of the agent that a connection can take, for any behaviour of the process.
const CONNECTION_BYTES: u64 = STREAMS as u64 * HEADER_BYTES as u64 + WINDOW_BYTES as u64 + (64 << 10);

/// Accepted connections that may wait to be served.
const BACKLOG: usize = 16;
/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that a refused process may take to read the reason.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);
/// The highest number of refused processes that the agent serves with the reason at once. A further
/// process replaces the oldest, so that processes that do not read cannot keep the reason from others.
const FAREWELLS: usize = 16;

/// Accepts connections of processes while the budget has resources left. Sends the reason to each
/// process that it refuses. Ends when the caller drops the returned value. Must be called in a tokio runtime.
pub(super) fn incoming(
    listener: UnixListener,
    budget: Arc<Budget>,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, accepted) = mpsc::channel(BACKLOG);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(&listener, &budget, &sender) => {}
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(accepted)
}

async fn accept(
    listener: &UnixListener,
    budget: &Arc<Budget>,
    accepted: &mpsc::Sender<Result<Connection, io::Error>>,
) {
    let mut farewells = VecDeque::new();
    // The first refusal is logged, and the following ones only after an accepted connection. A process that retries in
    // a loop must not fill the log.
    let mut refusing = false;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match Connection::new(stream, budget) {
            Ok(connection) => {
                refusing = false;
                // An error means that the server stops.
                let _ = accepted.send(Ok(connection)).await;
            }
            Err((stream, error)) => {
                if !std::mem::replace(&mut refusing, true) {
                    tracing::warn!(%error, "turned a process away, and more perhaps until one gets in again");
                }
                farewells.retain(|farewell: &AbortHandle| !farewell.is_finished());
                if farewells.len() == FAREWELLS
                    && let Some(oldest) = farewells.pop_front()
                {
                    oldest.abort();
                }
                let telling = async move {
                    // The result does not matter, because the connection is closed in any case.
                    let _ = timeout(FAREWELL_PATIENCE, farewell(stream, &error.to_string())).await;
                };
                farewells.push_back(tokio::spawn(telling).abort_handle());
            }
        }
    }
}

/// Sends the reason for closing a connection as an HTTP/2 GOAWAY frame, and waits until the other
/// side has closed it, too. If the agent closed the socket with unread bytes, the system would reset the connection,
/// and the process would not receive the reason.
async fn farewell(mut stream: UnixStream, reason: &str) -> io::Result<()> {
    /// An empty SETTINGS frame: length 0, type SETTINGS, no flags, stream 0.
    const NO_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    /// The GOAWAY frame without its length and reason: type GOAWAY, no flags, stream 0, last served
    /// stream 0 (none), and error code ENHANCE_YOUR_CALM.
    const GO_AWAY: [u8; 14] = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xb];
    const CODE_BYTES: usize = 8;
    let length = (CODE_BYTES + reason.len()) as u32;
    stream.write_all(&NO_SETTINGS).await?;
    stream.write_all(&length.to_be_bytes()[1..]).await?;
    stream.write_all(&GO_AWAY).await?;
    stream.write_all(reason.as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1 << 10];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

/// A process's connection, with its permits from the budget.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    _held: [Permit; 2],
}

impl Connection {
    /// Takes the connection if the budget allows it; otherwise returns the stream with the reason.
    fn new(stream: UnixStream, budget: &Arc<Budget>) -> Result<Self, (UnixStream, LimitError)> {
        // If the user is unknown, the connection counts for user `u32::MAX`, and the agent refuses its calls.
        let user = stream.peer_cred().map_or(u32::MAX, |credentials| credentials.uid());
        let held = budget
            .take(user, Resource::Descriptors, 1)
            .and_then(|descriptor| Ok([descriptor, budget.take(user, Resource::Memory, CONNECTION_BYTES)?]));
        match held {
            Ok(held) => Ok(Self { stream, _held: held }),
            Err(error) => Err((stream, error)),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
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
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
