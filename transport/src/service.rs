use std::fmt;
use std::time::Duration;

/// What listens at the other end: errors name it, and the options that it is told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The controller.
    Controller,
    /// A parameter server.
    ParameterServer,
}

/// How long a client bears with its server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// One that does not answer for this long, when it is called, is not there.
    pub(crate) connect: Duration,
    /// A connection that is silent this long while an answer is awaited is tried.
    pub(crate) silence: Duration,
    /// It is given up when nothing comes back for this long.
    pub(crate) answer: Duration,
}

impl Service {
    /// A controller that is away is noticed soon, since its hosts know how to go on without it. To a parameter server
    /// a connection that breaks is a worker that leaves.
    pub(crate) fn patience(self) -> Patience {
        let (connect, silence, answer) = match self {
            Self::Controller => (2000, 1000, 1500),
            Self::ParameterServer => (5000, 10_000, 10_000),
        };
        let [connect, silence, answer] = [connect, silence, answer].map(Duration::from_millis);
        Patience { connect, silence, answer }
    }

    /// The option with which its clients are told its address.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Controller => "--controller",
            Self::ParameterServer => "--server",
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
