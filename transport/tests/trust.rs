//! Who talks to whom, and what the others are told: real connections, with certificates of a test CA.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::Server;
use tower::service_fn;
use tributary_certs::{Authority, Subject, Validity};
use tributary_transport::{ClientTls, ConnectError, Remote, ServerTls, TlsError, TlsFiles, incoming};

/// A CA with a folder for what it issues.
struct Ca {
    authority: Authority,
    folder: tempfile::TempDir,
}

fn days(days: u32) -> Validity {
    Validity::days(days).unwrap()
}

/// For one day, a month ago.
fn long_ago() -> Validity {
    const DAY: Duration = Duration::from_hours(24);
    let now = days(1);
    Validity { from: now.from - 30 * DAY, until: now.until - 30 * DAY }
}

fn controller_at(name: &str) -> Subject {
    Subject::Controller(vec![name.parse().unwrap()])
}

fn host(name: &str) -> Subject {
    Subject::Client(name.parse().unwrap())
}

impl Ca {
    fn new() -> Self {
        let authority = Authority::generate(days(10)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
        Self { authority, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Files of someone whom this CA has given a certificate, and who trusts it.
    fn files(&self, file: &str, subject: &Subject, validity: Validity) -> TlsFiles {
        let issued = self.authority.issue(subject, validity).unwrap();
        let (certificate, key) = (self.path(&format!("{file}.crt")), self.path(&format!("{file}.key")));
        fs::write(&certificate, issued.certificate).unwrap();
        fs::write(&key, issued.key).unwrap();
        TlsFiles { certificate, key, ca: self.path("ca.crt") }
    }

    fn controller(&self) -> ServerTls {
        ServerTls::load(self.files("controller", &controller_at("127.0.0.1"), days(5))).unwrap()
    }

    fn host(&self, name: &str) -> ClientTls {
        ClientTls::load(self.files(name, &host(name), days(5))).unwrap()
    }
}

/// A gRPC server without services.
async fn serve(tls: Option<ServerTls>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = incoming(listener, tls);
    let nothing = service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Status::unimplemented("there is no service").into_http::<Body>())
    });
    tokio::spawn(Server::builder().serve_with_incoming(nothing, connections));
    address
}

async fn connect(address: SocketAddr, tls: Option<ClientTls>) -> Result<(), ConnectError> {
    Remote::controller(&address.to_string(), tls).unwrap().connect().await.map(drop)
}

/// It must be refused for want of trust, with each of `words`.
async fn distrusted(address: SocketAddr, tls: Option<ClientTls>, words: &[&str]) {
    // Again and again: what a client is told must not depend on who is faster.
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
    // A host that trusts the controller's CA, but has its certificate from another one.
    let mut files = other.files("stranger", &host("w0"), days(5));
    files.ca = ca.path("ca.crt");
    let stranger = ClientTls::load(files).unwrap();
    distrusted(address, Some(stranger), &["stranger.crt", "--tls-client-ca"]).await;
    let own_ca = other.path("ca.crt");
    distrusted(address, Some(other.host("w0")), &["not signed", own_ca.to_str().unwrap()]).await;
    connect(address, Some(ca.host("w0"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificates_are_not_believed() {
    let ca = Ca::new();
    let expired = ClientTls::load(ca.files("old", &host("w0"), long_ago())).unwrap();
    distrusted(serve(Some(ca.controller())).await, Some(expired), &["old.crt", "has expired"]).await;
    let old = ca.files("controller", &controller_at("127.0.0.1"), long_ago());
    let address = serve(Some(ServerTls::load(old).unwrap())).await;
    distrusted(address, Some(ca.host("w0")), &["its certificate has expired"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_good_for_its_purpose_and_its_names_only() {
    let ca = Ca::new();
    let elsewhere = ca.files("elsewhere", &controller_at("controller.example"), days(5));
    let address = serve(Some(ServerTls::load(elsewhere.clone()).unwrap())).await;
    distrusted(address, Some(ca.host("w0")), &["not for 127.0.0.1 but for controller.example:"]).await;

    let host_serves = ServerTls::load(ca.files("w0", &host("localhost"), days(5))).unwrap();
    let address = serve(Some(host_serves)).await;
    let name = Remote::controller(&format!("localhost:{}", address.port()), Some(ca.host("w1"))).unwrap();
    let error = name.connect().await.unwrap_err().to_string();
    assert!(error.contains("not for servers"), "{error}");

    let controller_joins = ClientTls::load(elsewhere).unwrap();
    let address = serve(Some(ca.controller())).await;
    distrusted(address, Some(controller_joins), &["elsewhere.crt", "not for clients"]).await;
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
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca.path("ca.crt")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let error = stream.read(&mut [0]).await.unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_does_not_keep_others_waiting() {
    let ca = Ca::new();
    let address = serve(Some(ca.controller())).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
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
fn files_that_cannot_be_used_are_named() {
    let ca = Ca::new();
    let good = ca.files("w0", &host("w0"), days(5));
    let other = ca.files("w1", &host("w1"), days(5));
    let refused = |files: TlsFiles, words: &[&str]| {
        let client = ClientTls::load(files.clone()).unwrap_err();
        let server = ServerTls::load(files).unwrap_err();
        for error in [&client as &dyn std::error::Error, &server].map(ToString::to_string) {
            assert!(words.iter().all(|word| error.contains(word)), "{words:?} are not in: {error}");
        }
        client
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let none = ca.path("none.crt");
    for field in 0..3 {
        let mut files = good.clone();
        *[&mut files.certificate, &mut files.key, &mut files.ca][field] = none.clone();
        assert!(matches!(refused(files, &["cannot read", &text(&none)]), TlsError::Unreadable { .. }));
    }
    let swapped = TlsFiles { certificate: good.key.clone(), key: good.certificate.clone(), ..good.clone() };
    refused(swapped, &[&text(&good.key), "holds no certificate"]);
    let no_key = TlsFiles { key: good.certificate.clone(), ..good.clone() };
    refused(no_key, &[&text(&good.certificate), "holds no private key"]);
    let mixed = TlsFiles { key: other.key.clone(), ..good.clone() };
    refused(mixed, &["w1.key", "does not belong to", "w0.crt"]);
    let damaged = ca.path("damaged.crt");
    fs::write(&damaged, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    refused(TlsFiles { ca: damaged.clone(), ..good.clone() }, &["damaged.crt", "cannot be used"]);
    refused(TlsFiles { certificate: damaged, ..good }, &["damaged.crt", "cannot be used"]);
}
