//! Mutual TLS.
//!
//! Code outside this folder uses only items that `without_tls.rs` has, too.

mod certificate_check;
mod client;
mod current;
mod error;
mod files;
mod messages;
mod server;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::names::Names;

pub use client::ClientTls;
pub use error::{TlsError, Unfit};
pub use files::TlsFiles;
pub use server::ServerTls;

/// The name of HTTP/2, which gRPC uses, in TLS's protocol negotiation.
const HTTP2: &[u8] = b"h2";

/// Returns the DNS names in a certificate; no names if it cannot be read. A certificate without names
/// matches no peer.
fn names_of(certificate: &CertificateDer<'_>) -> Names {
    let certificate = EndEntityCert::try_from(certificate);
    certificate.map(|certificate| certificate.valid_dns_names().collect()).unwrap_or_default()
}
