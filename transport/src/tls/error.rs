use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem;

use super::fitness::Unfit;

/// Why certificates and keys cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file that is not there, or not for this user to read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: io::Error,
    },
    /// A file that holds something else.
    #[error("{} holds no {what} in PEM format: {reason}", path.display())]
    NotPem {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: pem::Error,
    },
    /// A certificate or a key of a kind that is not supported, or a damaged one.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: rustls::Error,
    },
    /// A certificate that the other side could not believe.
    #[error("the certificate in {} {reason}", path.display())]
    Unfit {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        reason: Unfit,
    },
    /// The key is another certificate's.
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
    /// The certificates of the CA cannot serve to verify others.
    #[error("the CA in {} cannot be used: {problem}", path.display())]
    Verifier {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}
