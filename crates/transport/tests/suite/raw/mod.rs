//! A peer without the crate's own checks, which can also show invalid certificates.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tributary_transport::TlsFiles;

use crate::ca::Ca;

/// A clock that is ahead of the system's clock by this time.
#[derive(Debug)]
struct Ahead(Duration);

impl TimeProvider for Ahead {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) + self.0))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(ca: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    roots
}

fn own(files: &TlsFiles) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_file(&files.key).unwrap())
}

/// Returns the first error that a client reads from a server that refuses the client's certificate.
pub(crate) async fn turned_away(address: SocketAddr, ca: &Ca, shows: Option<&TlsFiles>) -> String {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(&ca.path("ca.crt")));
    let config = match shows.map(own) {
        None => config.with_no_client_auth(),
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.read(&mut [0]).await.unwrap_err().to_string()
}

/// Starts a server that shows these files without checking them. Its clock is `days_ahead` days
/// ahead, and it sends nothing.
pub(crate) async fn serve(files: &TlsFiles, days_ahead: u32) -> SocketAddr {
    let (chain, key) = own(files);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&files.ca)), provider());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    config.time_provider = Arc::new(Ahead(days_ahead * Duration::from_hours(24)));
    config.alpn_protocols.push(b"h2".to_vec());
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Err((_, mut stream)) = acceptor.accept(stream).into_fallible().await {
                // The server waits until the client has read the reason.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    });
    address
}
