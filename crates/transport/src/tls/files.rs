//! Certificates and keys in PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::{TlsError, Unfit};

/// The three PEM files that one side of mutual TLS needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The side's own certificate, followed by intermediate certificates up to the CA, if there are any.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Certificates of the CAs that may have signed the other side's certificate.
    pub ca: PathBuf,
}

/// The contents of the files.
pub(crate) struct Credentials {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) roots: Arc<RootCertStore>,
}

impl TlsFiles {
    pub(crate) fn load(&self) -> Result<Credentials, TlsError> {
        let chain = certificates(&self.certificate)?;
        let text = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|reason| TlsError::NotPem {
            what: "private key",
            path: self.key.clone(),
            reason,
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots.add(certificate).map_err(|reason| TlsError::Unusable { path: self.ca.clone(), reason })?;
        }
        Ok(Credentials { chain, key, roots: Arc::new(roots) })
    }

    /// Returns an error with the reason why peers would not trust the certificate.
    pub(crate) fn unfit(&self, reason: Unfit) -> TlsError {
        TlsError::Unfit { path: self.certificate.clone(), reason }
    }

    /// Returns the error for a certificate and a key that can be read but not used.
    pub(crate) fn unusable(&self, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            rustls::Error::InvalidCertificate(_) => {
                TlsError::Unusable { path: self.certificate.clone(), reason: error }
            }
            reason => TlsError::Unusable { path: self.key.clone(), reason },
        }
    }
}

/// Returns the cryptographic provider of both sides.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads the certificates in a file. Returns an error if there is none.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let not_pem = |reason| TlsError::NotPem { what: "certificate", path: path.into(), reason };
    // The first certificate is read separately, because that fails if the file has none.
    CertificateDer::from_pem_slice(&text).map_err(not_pem)?;
    CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(not_pem)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tributary_files::read(path).map_err(|reason| TlsError::Unreadable { path: path.into(), reason })
}
