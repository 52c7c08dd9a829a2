use thiserror::Error;

use crate::service::Service;

/// Why there is no connection to the controller or to a parameter server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The text is not an address.
    #[error("{0:?} is not an address: give HOST:PORT")]
    BadAddress(String),
    /// Nobody answers there.
    #[error("no {service} at {address}: is it running, and is {} right? ({reason})", service.option())]
    Unreachable {
        /// What was looked for.
        service: Service,
        /// Where it was looked for.
        address: String,
        /// What went wrong on the way.
        reason: String,
    },
    /// One of the two does not trust the other, or does not understand it.
    #[error("the {service} at {address} cannot be talked to: {reason}")]
    NoTrust {
        /// What was talked to.
        service: Service,
        /// Where it is.
        address: String,
        /// Who does not trust whom, why, and what to do.
        reason: String,
    },
}
