use std::fmt;

/// What listens at the other end: errors name it, and the options that it is told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The controller.
    Controller,
    /// A parameter server.
    ParameterServer,
}

impl Service {
    /// The option with which its clients are told its address.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Controller => "--controller",
            Self::ParameterServer => "--server",
        }
    }

    /// The option with which it is told the CA of its clients.
    pub(crate) fn ca_option(self) -> &'static str {
        match self {
            Self::Controller => "--tls-client-ca",
            Self::ParameterServer => "--tls-ca",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::ParameterServer => "parameter server",
        })
    }
}
