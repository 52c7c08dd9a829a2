use std::fmt;
use std::time::Duration;

/// The kind of server at the other end, for errors and for the options that they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The controller.
    Controller,
    /// A parameter server.
    ParameterServer,
}

/// The times for which a client waits for its server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The time within which a server must accept a connection.
    pub(crate) connect: Duration,
    /// The time after which the client sends a ping, if it waits for an answer and receives nothing.
    pub(crate) silence: Duration,
    /// The time without a reply to the ping after which the sender closes the connection.
    pub(crate) answer: Duration,
}

impl Service {
    /// Returns the times for a kind of server. The times for a controller are short, because its hosts
    /// can continue without it. The times for a parameter server are long, because a broken connection means that a
    /// worker leaves.
    pub(crate) fn patience(self) -> Patience {
        let (connect, silence, answer) = match self {
            Self::Controller => (2000, 1000, 1500),
            Self::ParameterServer => (5000, 10_000, 10_000),
        };
        let [connect, silence, answer] = [connect, silence, answer].map(Duration::from_millis);
        Patience { connect, silence, answer }
    }

    /// Returns the time without an answer to a ping after which a client closes its connection. A server
    /// that stood still for less than this time has lost no client.
    pub fn answer_patience(self) -> Duration {
        self.patience().answer
    }

    /// Returns the option by which clients get the server's address.
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
