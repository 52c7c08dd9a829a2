//! Mutual TLS.
//!
//! Outside of this folder the crate knows of it only what `without_tls.rs` has, too.

mod client;
mod current;
mod error;
mod files;
mod fitness;
mod server;
mod words;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::names::Names;

pub use client::ClientTls;
pub use error::TlsError;
pub use files::TlsFiles;
pub use fitness::Unfit;
pub use server::ServerTls;

/// What gRPC is called when TLS negotiates what is spoken.
const HTTP2: &[u8] = b"h2";

/// The names in a certificate; one that cannot be read has none, and one without names is for nobody.
fn names_of(certificate: &CertificateDer<'_>) -> Names {
    let certificate = EndEntityCert::try_from(certificate);
    certificate.map(|certificate| certificate.valid_dns_names().collect()).unwrap_or_default()
}
