//! The certificate authority (CA).

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use time::OffsetDateTime;
use x509_parser::parse_x509_certificate;
use x509_parser::pem::parse_x509_pem;

use crate::error::AuthorityError;
use crate::name::Name;
use crate::subject::Subject;
use crate::validity::Validity;

/// A CA: a public certificate and a private key. Only the operator may have the key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    until: OffsetDateTime,
}

/// A certificate and its private key.
pub struct Issued {
    /// The certificate, in PEM format.
    pub certificate: String,
    /// The private key, in PEM format (PKCS #8).
    pub key: String,
    /// The period in which the certificate is valid. It ends no later than the CA's.
    pub validity: Validity,
}

impl Authority {
    /// Creates a CA with a new key.
    ///
    /// # Errors
    /// [`AuthorityError::Rcgen`]: the certificate cannot be created.
    pub fn generate(validity: Validity) -> Result<Self, AuthorityError> {
        let mut params = params(validity);
        // Two CAs must have different names. With equal names, a client that trusts one of them would get a misleading
        // error for a certificate of the other.
        let name = format!("Tributary test CA {:08x}", rand::random::<u32>());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, until: validity.until })
    }

    /// Loads an existing CA from its certificate and its key in PEM format.
    ///
    /// # Errors
    /// [`AuthorityError`]: the certificate is not a CA's or has expired, the key is invalid, or the key does not belong
    /// to the certificate.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key).map_err(AuthorityError::NotAKey)?;
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).map_err(|_| AuthorityError::NotACertificate)?;
        let (_, parsed) =
            parse_x509_certificate(&pem.contents).map_err(|_| AuthorityError::NotACertificate)?;
        if !parsed.is_ca() {
            return Err(AuthorityError::NotACertificate);
        }
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(AuthorityError::Mismatch);
        }
        let until = parsed.validity().not_after.to_datetime();
        if until <= OffsetDateTime::now_utc() {
            return Err(AuthorityError::Expired(until.date().to_string()));
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key)?;
        Ok(Self { issuer, certificate: certificate.to_owned(), until })
    }

    /// Returns the CA's certificate, in PEM format.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the CA's private key, in PEM format (PKCS #8).
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a certificate for a new key.
    ///
    /// # Errors
    /// [`AuthorityError::Rcgen`]: the certificate cannot be created.
    pub fn issue(&self, subject: &Subject, validity: Validity) -> Result<Issued, AuthorityError> {
        let validity = validity.within(self.until);
        let mut params = params(validity);
        params.distinguished_name.push(DnType::CommonName, subject.common_name());
        let names = subject.names().iter();
        params.subject_alt_names = names.map(Name::alternative).collect::<Result<_, _>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = subject.purposes();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem(), validity })
    }
}

/// Returns the parameters that all certificates share.
fn params(validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = validity.from;
    params.not_after = validity.until;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> Authority {
        Authority::generate(Validity::days(10).unwrap()).unwrap()
    }

    fn host() -> Subject {
        Subject::Client("w0".parse().unwrap())
    }

    #[test]
    fn a_certificate_says_who_it_is_for_what_for_and_until_when() {
        let names = ["controller.example", "10.0.0.1", "::1"].map(|name| name.parse().unwrap());
        let authority = authority();
        let subjects = [
            (Subject::Controller(names.to_vec()), (true, false)),
            (Subject::ParameterServer(names.to_vec()), (true, true)),
            (host(), (false, true)),
        ];
        for (subject, expected) in subjects {
            let issued = authority.issue(&subject, Validity::days(5).unwrap()).unwrap();
            let (_, pem) = parse_x509_pem(issued.certificate.as_bytes()).unwrap();
            let (_, certificate) = parse_x509_certificate(&pem.contents).unwrap();
            let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
            assert_eq!((purposes.server_auth, purposes.client_auth), expected);
            let names = certificate.subject_alternative_name().unwrap().unwrap().value;
            assert_eq!(names.general_names.len(), subject.names().len());
            assert!(!certificate.is_ca() && certificate.validity().is_valid());
            assert_eq!(certificate.validity().not_after.to_datetime(), issued.validity.until);
        }
    }

    #[test]
    fn a_ca_can_be_used_again_and_nothing_outlives_it() {
        let first = authority();
        let again = Authority::from_pem(first.certificate(), &first.key()).unwrap();
        let long = Validity::days(1000).unwrap();
        let (one, other) = (first.issue(&host(), long).unwrap(), again.issue(&host(), long).unwrap());
        assert_eq!(one.validity.until, other.validity.until);
        assert!(one.validity.until < long.until);
        assert_eq!(first.key(), again.key());
    }

    #[test]
    fn what_is_no_ca_is_refused() {
        let authority = authority();
        let host = authority.issue(&host(), Validity::days(1).unwrap()).unwrap();
        let refused = |certificate: &str, key: &str| Authority::from_pem(certificate, key).unwrap_err();
        assert!(matches!(refused(&host.certificate, &host.key), AuthorityError::NotACertificate));
        assert!(matches!(refused(authority.certificate(), &host.key), AuthorityError::Mismatch));
        assert!(matches!(refused(authority.certificate(), "no key"), AuthorityError::NotAKey(_)));
        assert!(matches!(refused("nothing", &host.key), AuthorityError::NotACertificate));
        let past = Validity { from: OffsetDateTime::UNIX_EPOCH, until: OffsetDateTime::UNIX_EPOCH };
        let expired = Authority::generate(past).unwrap();
        assert!(matches!(refused(expired.certificate(), &expired.key()), AuthorityError::Expired(_)));
    }

    #[test]
    fn a_name_is_a_dns_name_or_an_address() {
        assert_eq!("gpu_0.rack-1".parse::<Name>().unwrap().to_string(), "gpu_0.rack-1");
        assert!(matches!("10.0.0.1".parse(), Ok(Name::Ip(_))));
        for wrong in ["", "a b", "-a", "10.0.0.1:29810", "a..b", "*.example"] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong:?}");
        }
        assert!(Validity::days(0).is_err() && Validity::days(u32::MAX).is_err());
    }
}
