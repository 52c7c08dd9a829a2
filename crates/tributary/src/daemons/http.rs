//! HTTP for browsers and for Prometheus.
//!
//! Any client that reaches the address may connect. So the number of connections is limited, and so is
//! the time that a connection stays open without a request.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tributary_transport::{ServerTls, incoming};

/// Time that a client may take for a request, and that a connection stays open without another request.
/// Browsers and Prometheus reconnect.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that an unfinished response may take after that.
const GRACE: Duration = Duration::from_secs(2);
/// The number of requests of one connection that are handled at once.
const REQUESTS: u32 = 16;

/// Serves `app` on up to `most` connections at a time, until the returned value is dropped.
pub(super) fn serve(listener: TcpListener, tls: Option<ServerTls>, most: usize, app: Router) -> JoinSet<()> {
    let mut connections = incoming(listener, tls, most);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                Some(accepted) = connections.next() => match accepted {
                    Ok(connection) => drop(clients.spawn(answer(connection, app.clone()))),
                    Err(error) => tracing::debug!(%error, "a connection"),
                },
                Some(_) = clients.join_next() => {}
                else => return tracing::error!("browsers and Prometheus are no longer served"),
            }
        }
    });
    serving
}

/// Serves one client until it closes the connection or sends no more requests.
async fn answer(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, app: Router) {
    let asked = Arc::new(Notify::new());
    let asks = Arc::clone(&asked);
    let app = app.layer(from_fn(move |request: Request, next: Next| {
        asks.notify_one();
        next.run(request)
    }));
    let mut server = Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(REQUESTS);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app)));
    loop {
        tokio::select! {
            ended = connection.as_mut() => return debug(ended),
            () = asked.notified() => {}
            () = sleep(PATIENCE) => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(GRACE, connection).await {
        debug(ended);
    }
}

fn debug<E: std::fmt::Display + ?Sized>(ended: Result<(), Box<E>>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a client");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::yield_now;
    use tokio::time::{Instant, advance};

    use super::*;

    /// Returns a client that is connected to a server with one path.
    fn connect() -> DuplexStream {
        let (client, server) = duplex(1 << 16);
        tokio::spawn(answer(server, Router::new().route("/", get(|| async { "hello" }))));
        client
    }

    /// Returns the time until the server closes the connection.
    async fn hung_up(client: &mut DuplexStream) -> Duration {
        let began = Instant::now();
        // An error also means that the connection has ended.
        let _ = client.read_to_end(&mut Vec::new()).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_makes_room_for_others() {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let request: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for said in [b"" as &[u8], b"GET", b"GET / HTTP/1.1\r\nHost: ", request, PREFACE] {
            let mut client = connect();
            client.write_all(said).await.unwrap();
            let stayed = hung_up(&mut client).await;
            assert!((PATIENCE..=PATIENCE + GRACE).contains(&stayed), "{said:?}: {stayed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_its_answer_makes_room_for_others() {
        let (mut client, server) = duplex(16);
        let answering = tokio::spawn(answer(server, Router::new().route("/", get(|| async { "hello" }))));
        let began = Instant::now();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        answering.await.unwrap();
        assert!((PATIENCE..=PATIENCE + GRACE).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_on_asking_stays() {
        let mut client = connect();
        for _ in 0..10 {
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"hello") {
                answer.push(client.read_u8().await.unwrap());
            }
            advance(PATIENCE / 2).await;
            yield_now().await;
        }
    }
}
