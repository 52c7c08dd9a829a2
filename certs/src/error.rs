use thiserror::Error;

/// Why a certificate is not made.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The text is no certificate of a CA in PEM format.
    #[error("this is not the certificate of a CA in PEM format")]
    NotACertificate,
    /// The text is no private key in PEM format, or one of an unknown kind.
    #[error("this is not a private key that can be used: {0}")]
    NotAKey(rcgen::Error),
    /// The key is another one's.
    #[error("the CA's key does not belong to its certificate: use the two that were made together")]
    Mismatch,
    /// The CA's certificate has expired.
    #[error("the CA has expired on {0}: make a new one, and new certificates with it")]
    Expired(String),
    /// A certificate is good for a whole number of days, and not for longer than dates can say.
    #[error("{0} days are not possible")]
    Days(u32),
    /// A name that no certificate can be for.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    NotAName(String),
    /// The library that writes certificates refuses.
    #[error("cannot make the certificate: {0}")]
    Rcgen(rcgen::Error),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Rcgen(error)
    }
}
