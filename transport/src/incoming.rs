//! The connections that clients open.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use crate::connection::{Connection, Peer};
use crate::room::{Place, Room};
use crate::tls::ServerTls;

/// After an error in accepting, such as having no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Accepted connections that nobody has taken yet.
const BACKLOG: usize = 16;

/// The connections that clients open, `most` of them at a time, and half as many from one address; with `tls` those on
/// which both have accepted each other. Why one is turned away is in the log. One that says nothing at first is closed.
/// Ends when it is dropped.
///
/// Must be called in a tokio runtime.
pub fn incoming(
    listener: TcpListener,
    tls: Option<ServerTls>,
    most: usize,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, accepted) = mpsc::channel(BACKLOG);
    let room = Room::new(most);
    tokio::spawn(async move {
        tokio::select! {
            () = accept(&listener, tls, &room, &sender) => {}
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(accepted)
}

async fn accept(
    listener: &TcpListener,
    tls: Option<ServerTls>,
    room: &Room,
    accepted: &mpsc::Sender<Result<Connection, io::Error>>,
) {
    // One line tells of many: a client in a loop must not fill the log.
    let mut refusing = false;
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = room.take(address.ip()) else {
            if !std::mem::replace(&mut refusing, true) {
                tracing::warn!(%address, "turned a client away, and more perhaps until one gets in again: too many are connected");
            }
            continue;
        };
        refusing = false;
        let (tls, accepted) = (tls.clone(), accepted.clone());
        // In a task of its own: one that is slow to show who it is must not keep the others waiting.
        tokio::spawn(async move {
            if let Some(connection) = open(stream, address, place, tls).await {
                // An error means that the server stops.
                let _ = accepted.send(Ok(connection)).await;
            }
        });
    }
}

async fn open(
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
    tls: Option<ServerTls>,
) -> Option<Connection> {
    // Answers are small, and awaited.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "small packets may be late");
    }
    match tls {
        None => Some(Connection::new(Box::new(stream), Peer::new(address, None), place)),
        Some(tls) => {
            let (stream, peer) = tls.handshake(stream, address).await?;
            Some(Connection::new(stream, peer, place))
        }
    }
}
