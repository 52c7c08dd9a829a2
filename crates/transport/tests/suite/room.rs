//! The limit on a server's connections, and on the time of a silent client.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::Server;
use tower::service_fn;
use tributary_transport::incoming;

/// The first bytes of an HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn one_address_gets_half_of_the_room() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = incoming(listener, None, 4);
    let _first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let held = [connections.next().await, connections.next().await];
    // This address has no connection left, so the server closes the connection without a message.
    let mut third = TcpStream::connect(address).await.unwrap();
    assert_eq!(third.read(&mut [0; 1]).await.unwrap(), 0);
    // One connection ends, so that the server accepts another.
    drop(held);
    assert_eq!(second.read(&mut [0; 1]).await.unwrap(), 0);
    let _fourth = TcpStream::connect(address).await.unwrap();
    assert!(connections.next().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let nothing = service_fn(|_: Request<Body>| async {
        Ok::<_, std::convert::Infallible>(tonic::Status::unimplemented("nothing").into_http::<Body>())
    });
    tokio::spawn(Server::builder().serve_with_incoming(nothing, incoming(listener, None, 4)));
    for said in [&[][..], &PREFACE[..PREFACE.len() - 1]] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        // The connection ends properly or by a reset.
        let _ = client.read_to_end(&mut answer).await;
    }
}
