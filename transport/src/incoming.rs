//! The connections that clients open.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;

use crate::connection::{Connection, Peer};
use crate::tls::ServerTls;

/// After an error in accepting, such as having no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Accepted connections that nobody has taken yet.
const BACKLOG: usize = 16;

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
                None => Some(Connection { stream: Box::new(stream), peer: Peer::new(address, None) }),
                Some(tls) => tls.handshake(stream, address).await,
            };
            if let Some(connection) = connection {
                // An error means that the server stops.
                let _ = accepted.send(Ok(connection)).await;
            }
        });
    }
}
