//! Messages about TLS problems, which name the remedy.

use tokio_rustls::rustls;
use tokio_rustls::rustls::{AlertDescription, CertificateError};

use super::files::TlsFiles;
use crate::service::Service;

/// Returns the reason why a server and this client cannot connect. `files` are the client's files.
pub(crate) fn of_client(error: &rustls::Error, service: Service, files: &TlsFiles) -> String {
    let (own, ca) = (files.certificate.display(), files.ca.display());
    match error {
        rustls::Error::InvalidCertificate(error) => of_servers_certificate(error, service, &ca.to_string()),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA | AlertDescription::DecryptError => format!(
                "it does not trust the certificate in {own} (--tls-cert): that has to be signed by the CA that \
                 the {service} was given as {}",
                ca_option(service)
            ),
            AlertDescription::CertificateExpired => format!(
                "the certificate in {own} (--tls-cert) has expired or is not valid yet: get a new one, or set \
                 the clock right"
            ),
            AlertDescription::UnsupportedCertificate => {
                format!(
                    "the certificate in {own} (--tls-cert) is not for clients: is it the {service}'s own?"
                )
            }
            alert => format!("it refuses the connection, with the TLS alert {alert:?}: its log says more"),
        },
        rustls::Error::InvalidMessage(_) => format!(
            "it does not speak TLS: start it with --tls-cert, --tls-key and {}, or leave out --tls-ca, --tls-cert \
             and --tls-key here",
            ca_option(service)
        ),
        error => error.to_string(),
    }
}

/// Returns the option that gives a server the CA of its clients.
fn ca_option(service: Service) -> &'static str {
    match service {
        Service::Controller => "--tls-client-ca",
        Service::ParameterServer => "--tls-ca",
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the other ones' own words have to do")]
fn of_servers_certificate(error: &CertificateError, service: Service, ca: &str) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!(
                "its certificate is not signed by a CA in {ca} (--tls-ca): is that the CA of this fabric?"
            )
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "its certificate is not for {} but for {}: use one of these in {}, or give the {service} a \
             certificate for this name, too",
            expected.to_str(),
            presented.iter().map(|name| bare(name)).collect::<Vec<_>>().join(", "),
            service.option(),
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for servers: is it a host's that only connects?".to_owned()
        }
        error => format!("its certificate {}", of_certificate(error)),
    }
}

/// Returns the reason why a server refuses a client. `files` are the server's files.
pub(crate) fn of_server(error: &rustls::Error, files: &TlsFiles) -> String {
    match error {
        rustls::Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            format!("its certificate is not signed by a CA in {}", files.ca.display())
        }
        rustls::Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "its certificate is not for clients".to_owned(),
        rustls::Error::InvalidCertificate(error) => format!("its certificate {}", of_certificate(error)),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        rustls::Error::AlertReceived(alert) => format!(
            "it does not trust the certificate in {}, or that is for another name (TLS alert {alert:?})",
            files.certificate.display()
        ),
        error => error.to_string(),
    }
}

/// Returns the problem of a certificate of either side.
fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired: it has to be issued anew".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: are the clocks on both sides right?".to_owned()
        }
        error => format!("cannot be believed: {error}"),
    }
}

/// Returns `w0` for the verifier's `DnsName("w0")`, and `::1` for `IpAddress(::1)`.
fn bare(presented: &str) -> &str {
    let inside = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(presented).trim_matches('"')
}
