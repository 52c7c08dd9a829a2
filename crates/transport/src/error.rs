use thiserror::Error;

use crate::service::Service;

/// The reason why a connection to the controller or to a parameter server failed.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is not an address.
    #[error("{0:?} is not an address: give HOST:PORT")]
    BadAddress(String),
    /// The address does not answer.
    #[error("no {service} at {address}: is it running, and is {} right? ({reason})", service.option())]
    Unreachable {
        /// The kind of server.
        service: Service,
        /// The server's address.
        address: String,
        /// The last error of the attempt.
        reason: String,
    },
    /// This process has no file descriptor left, so it cannot open a connection to any address.
    #[error(
        "no connection to the {service} at {address}, since process {} of this host has no file descriptor left \
         ({reason}): raise its limit (`ulimit -n`, or LimitNOFILE= of its unit)",
        std::process::id()
    )]
    NoDescriptor {
        /// The kind of server.
        service: Service,
        /// The server's address.
        address: String,
        /// The system's message.
        reason: String,
    },
    /// One side does not trust the other side, or cannot interpret its messages.
    #[error("the {service} at {address} cannot be talked to: {reason}")]
    NoTrust {
        /// The kind of server.
        service: Service,
        /// The server's address.
        address: String,
        /// The side that does not trust the other, the reason, and the remedy.
        reason: String,
    },
}
