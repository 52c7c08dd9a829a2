use std::io;

use thiserror::Error;

/// The reason why a P4Runtime server cannot be started.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Another process listens at this address.
    #[error(
        "the address {address} for P4Runtime is taken by another process: end that one, or give another port"
    )]
    AddressInUse {
        /// The address.
        address: String,
    },
    /// The operating system refuses to listen at this address.
    #[error("can't listen for P4Runtime on {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// The operating system's reason.
        reason: io::Error,
    },
}

impl ServerError {
    pub(super) fn listen(address: &str, reason: io::Error) -> Self {
        let address = address.to_owned();
        match reason.kind() {
            io::ErrorKind::AddrInUse => Self::AddressInUse { address },
            _ => Self::Listen { address, reason },
        }
    }
}
