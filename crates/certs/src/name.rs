use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rcgen::SanType;
use rustls_pki_types::DnsName;

use crate::error::AuthorityError;

/// A name in a certificate: a DNS name, such as a host's name in the topology, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A DNS name, which may consist of one label.
    Dns(String),
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
}

impl Name {
    pub(crate) fn alternative(&self) -> Result<SanType, AuthorityError> {
        Ok(match self {
            Self::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            Self::Ip(address) => SanType::IpAddress(*address),
        })
    }
}

impl FromStr for Name {
    type Err = AuthorityError;

    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        match DnsName::try_from(text) {
            Ok(_) => Ok(Self::Dns(text.to_owned())),
            Err(_) => Err(AuthorityError::NotAName(text.to_owned())),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(address) => address.fmt(f),
        }
    }
}
