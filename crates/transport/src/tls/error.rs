//! The errors of certificates and keys.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem;

use crate::names::Names;

/// The reason why certificates and keys cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file does not exist, or this user may not read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file does not have the expected content.
    #[error("{} holds no {what} in PEM format: {reason}", path.display())]
    NotPem {
        /// The expected content.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        reason: pem::Error,
    },
    /// A certificate or a key is damaged, or of a kind that is not supported.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The problem.
        reason: rustls::Error,
    },
    /// The other side could not trust the certificate.
    #[error("the certificate in {} {reason}", path.display())]
    Unfit {
        /// The certificate's file.
        path: PathBuf,
        /// The reason.
        reason: Unfit,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {} does not belong to the certificate in {}: give the two that were made together",
        key.display(), certificate.display()
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The CA's certificates cannot verify other certificates.
    #[error("the CA in {} cannot be used: {problem}", path.display())]
    Verifier {
        /// The path of the file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

/// The reason why peers would not trust a certificate. In a message, it follows the file's name.
#[derive(Debug, Error)]
pub enum Unfit {
    /// The certificate or an intermediate certificate has expired.
    #[error("expired on {0}: have it issued anew, and put it in this place")]
    Expired(String),
    /// The certificate is not valid yet.
    #[error("is not valid before {0}: is this machine's clock right?")]
    NotYet(String),
    /// The CA's file does not contain the CA that has signed the certificate.
    #[error(
        "is not signed by a CA in {}: give one that is, or add the certificate of its CA there",
        ca.display()
    )]
    OtherCa {
        /// The CA's file.
        ca: PathBuf,
    },
    /// The certificate is for clients, but its owner accepts connections.
    #[error("is not for servers (extended key usage): is it a host's that only connects?")]
    NotForServers,
    /// The certificate is for servers, but its owner opens connections.
    #[error("is not for clients (extended key usage): is it the controller's own?")]
    NotForClients,
    /// The certificate belongs to a CA.
    #[error("is a CA's own: give one that the CA has issued")]
    Ca,
    /// The certificate belongs to another host.
    #[error(
        "is for {names}, not for host {host:?}: give the daemon its own host's certificate, or correct its --host"
    )]
    OtherHost {
        /// The names in the certificate.
        names: Names,
        /// The host that uses the certificate.
        host: String,
    },
    /// Another reason.
    #[error("cannot be used: {0}")]
    Other(webpki::Error),
}
