use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem;

use super::fitness::Unfit;

/// Why certificates and keys cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file does not exist, or this user may not read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} holds no {what} in PEM format: {reason}", path.display())]
    NotPem {
        /// The expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error in the file.
        reason: pem::Error,
    },
    /// A certificate or a key is damaged, or of a kind that is not supported.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
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
    /// The CA's certificates cannot be used to verify others.
    #[error("the CA in {} cannot be used: {problem}", path.display())]
    Verifier {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}
