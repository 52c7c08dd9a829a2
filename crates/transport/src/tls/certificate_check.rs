//! Checks of a certificate before its use: its owner's peers must trust it at present.
//!
//! A process checks its files at the start and at each reload. With a certificate that its peers do not trust, it would
//! lose all of them; a controller, for example, would conclude that all of its hosts are dead.

use tokio_rustls::rustls::pki_types::UnixTime;
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::time::ASN1Time;

use super::error::{TlsError, Unfit};
use super::files::{Credentials, TlsFiles, provider};
use super::names_of;

/// The role in which the owner uses a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The owner accepts connections.
    Server,
    /// The owner opens connections.
    Client,
}

impl Usage {
    fn key_usage(self) -> KeyUsage {
        match self {
            Self::Server => KeyUsage::server_auth(),
            Self::Client => KeyUsage::client_auth(),
        }
    }
}

/// Checks the certificate from `files` in the same way in which the other end would check it now.
///
/// # Errors
/// [`TlsError::Unfit`] if the other end would not trust the certificate.
pub(crate) fn check(files: &TlsFiles, credentials: &Credentials, usage: Usage) -> Result<(), TlsError> {
    verify(credentials, usage).map_err(|error| files.unfit(reason(error, usage, files)))
}

/// Checks that a certificate has this host's name.
///
/// # Errors
/// [`TlsError::Unfit`] if the certificate belongs to another host.
pub(crate) fn check_host(files: &TlsFiles, credentials: &Credentials, host: &str) -> Result<(), TlsError> {
    let names = credentials.chain.first().map(names_of).unwrap_or_default();
    if names.contains(host) {
        return Ok(());
    }
    Err(files.unfit(Unfit::OtherHost { names, host: host.to_owned() }))
}

fn verify(credentials: &Credentials, usage: Usage) -> Result<(), webpki::Error> {
    let (certificate, between) = credentials.chain.split_first().ok_or(webpki::Error::UnknownIssuer)?;
    let algorithms = provider().signature_verification_algorithms.all;
    let (roots, now) = (&credentials.roots.roots, UnixTime::now());
    let certificate = EndEntityCert::try_from(certificate)?;
    certificate.verify_for_usage(algorithms, roots, between, now, usage.key_usage(), None, None).map(drop)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the other ones' own words have to do")]
fn reason(error: webpki::Error, usage: Usage, files: &TlsFiles) -> Unfit {
    match error {
        webpki::Error::CertExpired { not_after, .. } => Unfit::Expired(date(not_after)),
        webpki::Error::CertNotValidYet { not_before, .. } => Unfit::NotYet(date(not_before)),
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            Unfit::OtherCa { ca: files.ca.clone() }
        }
        webpki::Error::RequiredEkuNotFoundContext(_) | webpki::Error::EmptyEkuExtension => match usage {
            Usage::Server => Unfit::NotForServers,
            Usage::Client => Unfit::NotForClients,
        },
        webpki::Error::CaUsedAsEndEntity => Unfit::Ca,
        error => Unfit::Other(error),
    }
}

/// Formats a date, for example as `2027-01-31 08:05 UTC`.
fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let Some(time) = seconds.and_then(|seconds| ASN1Time::from_timestamp(seconds).ok()) else {
        return "a day that cannot be told".to_owned();
    };
    let time = time.to_datetime();
    format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute())
}
