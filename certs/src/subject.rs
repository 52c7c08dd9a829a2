use rcgen::ExtendedKeyUsagePurpose;

use crate::name::Name;

/// Whom a certificate is made for, and thereby what it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A controller that is reached at these names and addresses: good for listening only, so that no host can
    /// pass for the controller.
    Controller(Vec<Name>),
    /// A host with a parameter server: its name in the topology, then the names and addresses at which workers
    /// reach it. Good for both: it connects to the controller, too.
    ParameterServer(Vec<Name>),
    /// A host, by its name in the topology, or an operator: good for connecting only.
    Client(Name),
}

impl Subject {
    /// The names in the certificate.
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
