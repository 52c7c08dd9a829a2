use rcgen::ExtendedKeyUsagePurpose;

use crate::name::Name;

/// The holder of a certificate, which determines its permitted use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A controller that clients reach at these names and addresses.
    /// The certificate is only for listening. The certificates of hosts are not valid for that, so no host can pose as
    /// the controller.
    Controller(Vec<Name>),
    /// A host with a parameter server: its name in the topology, followed by names and addresses.
    /// Workers reach it at these names and addresses. The certificate is for listening and for connecting, because the
    /// host also connects to the controller.
    ParameterServer(Vec<Name>),
    /// A host, by its name in the topology, or an operator. The certificate is only for connecting.
    Client(Name),
}

impl Subject {
    /// Returns the names in the certificate.
    pub fn names(&self) -> &[Name] {
        match self {
            Self::Controller(names) | Self::ParameterServer(names) => names,
            Self::Client(name) => std::slice::from_ref(name),
        }
    }

    pub(crate) fn common_name(&self) -> String {
        match self {
            Self::Controller(_) => "Tributary controller".to_owned(),
            Self::ParameterServer(names) => names.first().map(ToString::to_string).unwrap_or_default(),
            Self::Client(name) => name.to_string(),
        }
    }

    pub(crate) fn purposes(&self) -> Vec<ExtendedKeyUsagePurpose> {
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        match self {
            Self::Controller(_) => vec![ServerAuth],
            Self::ParameterServer(_) => vec![ServerAuth, ClientAuth],
            Self::Client(_) => vec![ClientAuth],
        }
    }
}
