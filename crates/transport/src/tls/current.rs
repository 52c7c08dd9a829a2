//! The latest contents of certificate files, which can be read again while they are in use.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// The present contents, which all clones share.
#[derive(Debug)]
pub(crate) struct Current<C>(Arc<RwLock<Loaded<C>>>);

/// The contents of the files.
#[derive(Debug)]
pub(crate) struct Loaded<C> {
    pub(crate) config: Arc<C>,
    /// The time at which the certificate expires, in seconds since 1970.
    pub(crate) expires: Option<u64>,
}

impl<C> Clone for Loaded<C> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config), expires: self.expires }
    }
}

impl<C> Clone for Current<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Current<C> {
    pub(crate) fn new(loaded: Loaded<C>) -> Self {
        Self(Arc::new(RwLock::new(loaded)))
    }

    /// Returns the contents for future connections.
    pub(crate) fn get(&self) -> Loaded<C> {
        // The value is only replaced as a whole, so a panic of another thread cannot leave it inconsistent.
        self.0.read().clone()
    }

    pub(crate) fn replace(&self, loaded: Loaded<C>) {
        *self.0.write() = loaded;
    }
}

/// Returns the expiry of a certificate in seconds since 1970; `None` without a readable certificate.
pub(crate) fn expires(chain: &[CertificateDer<'_>]) -> Option<u64> {
    let (_, certificate) = parse_x509_certificate(chain.first()?).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}
