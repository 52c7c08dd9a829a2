//! What was read from certificate files last: it can be read again while it is in use.

use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// Shared by all clones: each sees what was read last.
#[derive(Debug)]
pub(crate) struct Current<C>(Arc<RwLock<Loaded<C>>>);

/// What the files held.
#[derive(Debug)]
pub(crate) struct Loaded<C> {
    pub(crate) config: Arc<C>,
    /// The certificate's last moment, in seconds since 1970.
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

    /// What holds for connections from now on.
    pub(crate) fn get(&self) -> Loaded<C> {
        // It is only ever replaced as a whole, so that a panic elsewhere can't spoil it.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, loaded: Loaded<C>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }
}

/// A certificate's last moment, in seconds since 1970; `None` where there is no certificate, or it cannot be read.
pub(crate) fn expires(chain: &[CertificateDer<'_>]) -> Option<u64> {
    let (_, certificate) = parse_x509_certificate(chain.first()?).ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}
