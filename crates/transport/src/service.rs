use std::fmt;
use std::time::Duration;

/// The kind of server at the other end, for errors and the options that they mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The controller.
    Controller,
    /// A parameter server.
    ParameterServer,
}

/// Time for which a client waits for its server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// A server that does not accept a connection for this long is not there.
    pub(crate) connect: Duration,
    /// A connection on which nothing comes for this long, while an answer is awaited, is pinged.
    pub(crate) silence: Duration,
    /// The time without a reply to the ping after which the sender closes the connection.
    pub(crate) answer: Duration,
}

impl Service {
    /// A controller that is away is noticed soon, since its hosts can continue without it. For a parameter
    /// server a broken connection means that a worker leaves.
    pub(crate) fn patience(self) -> Patience {
        let (connect, silence, answer) = match self {
            Self::Controller => (2000, 1000, 1500),
            Self::ParameterServer => (5000, 10_000, 10_000),
        };
        let [connect, silence, answer] = [connect, silence, answer].map(Duration::from_millis);
        Patience { connect, silence, answer }
    }

    /// Returns the time without an answer to a ping after which a client closes its connection.
    /// A server that stood still for less has lost no client.
    pub fn answer_patience(self) -> Duration {
        self.patience().answer
    }

    /// The option that gives its address to clients.
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
