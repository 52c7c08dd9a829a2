//! Tests of trust between peers, and of the errors that refused peers get. The connections are real,
//! with certificates of a test CA.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::Server;
use tower::service_fn;
use tributary_transport::{ClientTls, ConnectError, Remote, ServerTls, incoming};

use crate::ca::{Ca, controller_at, days, host, long_ago};
use crate::raw;

/// Starts a gRPC server without services.
async fn serve(tls: Option<ServerTls>) -> SocketAddr {
    serve_most(tls, 1024).await
}

/// Starts a server that accepts up to `most` connections.
async fn serve_most(tls: Option<ServerTls>, most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = incoming(listener, tls, most);
    let nothing = service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Status::unimplemented("there is no service").into_http::<Body>())
    });
    tokio::spawn(Server::builder().serve_with_incoming(nothing, connections));
    address
}

async fn connect(address: SocketAddr, tls: Option<ClientTls>) -> Result<(), ConnectError> {
    Remote::controller(&address.to_string(), tls).unwrap().connect().await.map(drop)
}

/// Checks that one side refuses the other, and that the error contains each of `words`.
async fn distrusted(address: SocketAddr, tls: Option<ClientTls>, words: &[&str]) {
    // The attempt is repeated, because the error must not depend on which side is faster.
    for _ in 0..10 {
        let error = connect(address, tls.clone()).await.unwrap_err();
        assert!(matches!(error, ConnectError::NoTrust { .. }), "{error}");
        for word in words.iter().chain([&address.to_string().as_str()]) {
            assert!(error.to_string().contains(word), "{word:?} is not in: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_certificates_of_one_ca_can_talk() {
    let ca = Ca::new();
    connect(serve(Some(ca.controller())).await, Some(ca.host("w0"))).await.unwrap();
    connect(serve(None).await, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_another_ca_are_not_believed() {
    let (ca, other) = (Ca::new(), Ca::new());
    let address = serve(Some(ca.controller())).await;
    // The host also trusts the controller's CA, but its own certificate is from another CA.
    let mut files = other.files("stranger", &host("w0"), days(5));
    files.ca = other.path("both.crt");
    let both = [&ca, &other].map(|ca| fs::read_to_string(ca.path("ca.crt")).unwrap());
    fs::write(&files.ca, both.concat()).unwrap();
    let stranger = ClientTls::load(files).unwrap();
    distrusted(address, Some(stranger), &["stranger.crt", "--tls-client-ca"]).await;
    let own_ca = other.path("ca.crt");
    distrusted(address, Some(other.host("w0")), &["not signed", own_ca.to_str().unwrap()]).await;
    connect(address, Some(ca.host("w0"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_expire_meanwhile_are_not_believed() {
    let ca = Ca::new();
    let old = ca.files("old", &host("w0"), long_ago());
    let said = raw::turned_away(serve(Some(ca.controller())).await, &ca, Some(&old)).await;
    assert!(said.contains("CertificateExpired"), "{said}");
    let old = ca.files("controller", &controller_at("127.0.0.1"), long_ago());
    distrusted(raw::serve(&old, 0).await, Some(ca.host("w0")), &["its certificate has expired"]).await;
    // The server's clock is a month ahead, so for this server the client's certificate has expired.
    let good = ca.files("controller", &controller_at("127.0.0.1"), days(5));
    distrusted(raw::serve(&good, 30).await, Some(ca.host("w0")), &["w0.crt", "has expired"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_good_for_its_purpose_and_its_names_only() {
    let ca = Ca::new();
    let elsewhere = ca.files("elsewhere", &controller_at("controller.example"), days(5));
    let address = serve(Some(ServerTls::load(elsewhere.clone()).unwrap())).await;
    distrusted(address, Some(ca.host("w0")), &["not for 127.0.0.1 but for controller.example:"]).await;

    let address = raw::serve(&ca.files("w0", &host("localhost"), days(5)), 0).await;
    let name = Remote::controller(&format!("localhost:{}", address.port()), Some(ca.host("w1"))).unwrap();
    let error = name.connect().await.unwrap_err().to_string();
    assert!(error.contains("not for servers"), "{error}");

    let said = raw::turned_away(serve(Some(ca.controller())).await, &ca, Some(&elsewhere)).await;
    assert!(said.contains("UnsupportedCertificate"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_and_tls_are_told_apart() {
    let ca = Ca::new();
    distrusted(serve(Some(ca.controller())).await, None, &["it demands TLS", "--tls-ca"]).await;
    distrusted(serve(None).await, Some(ca.host("w0")), &["does not speak TLS", "--tls-cert"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_without_a_certificate() {
    let ca = Ca::new();
    let address = serve(Some(ca.controller())).await;
    let said = raw::turned_away(address, &ca, None).await;
    assert!(said.contains("CertificateRequired"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_does_not_keep_others_waiting() {
    let ca = Ca::new();
    // There are many more clients than the limit allows, and than may be in the handshake.
    let address = serve_most(Some(ca.controller()), 4).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    connect(address, Some(ca.host("w0"))).await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_no_matter_of_trust() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for tls in [None, Some(Ca::new().host("w0"))] {
        let error = connect(address, tls).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }
}

#[test]
fn a_name_that_leads_nowhere_is_said() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let remote = Remote::controller("no-such-host.invalid:29810", None).unwrap();
    let error = runtime.block_on(remote.connect()).unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("the name \"no-such-host.invalid\" leads to no address"), "{error}");
    // If no resolver answers, the system keeps retrying for some time.
    runtime.shutdown_background();
}
