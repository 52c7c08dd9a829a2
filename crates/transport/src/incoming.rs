//! The connections that clients open.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use crate::connection::{Connection, Peer};
use crate::connection_limit::{ConnectionLimit, Permit};
use crate::tls::ServerTls;

/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Accepted connections that may wait until the server takes them.
const BACKLOG: usize = 16;

/// Clients that may be in the handshake at the same time. A further client replaces the client that
/// has been in the handshake for the longest time, so that clients that never finish cannot block others.
const MAX_HANDSHAKES: usize = 64;

/// Returns the connections that clients open: at most `most` at a time, and half as many from one
/// address. With `tls`, these are the connections on which both sides have accepted each other; a few more may be in
/// the handshake. The log has the reason for each refusal. If a client does not send its first bytes in time, its
/// connection is closed. The task ends when the stream is dropped.
///
/// Must be called in a tokio runtime.
pub fn incoming(
    listener: TcpListener,
    tls: Option<ServerTls>,
    most: usize,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, accepted) = mpsc::channel(BACKLOG);
    let door = Arc::new(Door { tls, limit: ConnectionLimit::new(most), refusing: AtomicBool::new(false) });
    tokio::spawn(async move {
        tokio::select! {
            () = accept(&listener, &door, &sender) => {}
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(accepted)
}

async fn accept(
    listener: &TcpListener,
    door: &Arc<Door>,
    accepted: &mpsc::Sender<Result<Connection, io::Error>>,
) {
    let mut handshakes: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        handshakes.retain(|handshake| !handshake.is_finished());
        if handshakes.len() >= MAX_HANDSHAKES
            && let Some(longest) = handshakes.pop_front()
        {
            longest.abort();
        }
        let (door, accepted) = (Arc::clone(door), accepted.clone());
        // Each handshake has its own task, so that a slow client does not delay the others.
        let opening = tokio::spawn(async move {
            if let Some(connection) = door.open(stream, address).await {
                // An error means that the server stops.
                let _ = accepted.send(Ok(connection)).await;
            }
        });
        handshakes.push_back(opening.abort_handle());
    }
}

/// Decides which clients may connect.
struct Door {
    tls: Option<ServerTls>,
    limit: ConnectionLimit,
    /// True after a refusal until the next accepted connection. Only the first refusal is logged, so that
    /// a client that retries in a loop does not fill the log.
    refusing: AtomicBool,
}

impl Door {
    async fn open(&self, stream: TcpStream, address: SocketAddr) -> Option<Connection> {
        // Answers are small and clients wait for them, so packets must not be delayed.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "small packets may be late");
        }
        let Some(tls) = self.tls.clone() else {
            let place = self.place(address)?;
            return Some(Connection::new(Box::new(stream), Peer::new(address, None), place));
        };
        let (stream, peer) = tls.handshake(stream, address).await?;
        Some(Connection::new(stream, peer, self.place(address)?))
    }

    fn place(&self, address: SocketAddr) -> Option<Permit> {
        let place = self.limit.take(address.ip());
        if !self.refusing.swap(place.is_none(), Ordering::AcqRel) && place.is_none() {
            tracing::warn!(%address, "turned a client away, and more perhaps until one gets in again: too many are connected");
        }
        place
    }
}
