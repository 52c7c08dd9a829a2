use thiserror::Error;

/// Reasons why a certificate cannot be issued.
#[derive(Debug, Error)]
pub enum AuthorityError {
    /// The text is not a CA's certificate in PEM format.
    #[error("this is not the certificate of a CA in PEM format")]
    NotACertificate,
    /// The text is not a private key in PEM format, or the key is of an unknown kind.
    #[error("this is not a private key that can be used: {0}")]
    NotAKey(rcgen::Error),
    /// The key does not belong to the certificate.
    #[error("the CA's key does not belong to its certificate: use the two that were made together")]
    Mismatch,
    /// The CA's certificate has expired.
    #[error("the CA has expired on {0}: make a new one, and new certificates with it")]
    Expired(String),
    /// The number of days is 0, or the period would end after the last possible date.
    #[error("{0} days are not possible")]
    Days(u32),
    /// The text is not a name for which a certificate can be issued.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    NotAName(String),
    /// The library that creates certificates has failed.
    #[error("cannot make the certificate: {0}")]
    Rcgen(rcgen::Error),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Rcgen(error)
    }
}
