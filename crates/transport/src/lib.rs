//! Connections between servers (the controller, a parameter server) and their clients: TCP, with mutual
//! TLS or in plain text.
//!
//! With TLS both sides show a certificate, and each trusts only certificates that its CA has signed. A server learns
//! the names in its caller's certificate ([`Peer`]) and decides the rights of each name. Only TLS 1.3 is supported,
//! without resumption: every connection is verified again. A process does not even load a certificate from its file
//! that the other side could not trust.
//!
//! TLS needs the feature `tls`, which the binary has; `make demo`, all in one process, does without it. Without the
//! feature [`ClientTls`] and [`ServerTls`] have no values and cannot be made: code that needs TLS does not compile,
//! rather than communicate in plain text.
//!
//! Everything that comes in is bounded before it is trusted: the number of connections and how long they may be silent
//! ([`incoming`]), the size of a request ([`BySize`]), and how much larger it may become in memory ([`BoundedCodec`]).
//!
//! Every problem with certificates is reported on both sides in a sentence that says what to do.

mod bounded;
mod by_size;
mod cause;
mod connection;
mod connection_limit;
mod error;
mod first_read;
mod incoming;
mod names;
mod remote;
mod service;
mod standstill;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;

pub use bounded::{Bounded, BoundedCodec, BoundedDecoder};
pub use by_size::{BySize, Size, method};
pub use cause::innermost;
pub use connection::{Connection, Peer};
pub use error::ConnectError;
pub use incoming::incoming;
pub use names::{Names, NotItsHost};
pub use remote::Remote;
pub use service::Service;
pub use standstill::{Standstill, StandstillDetector};
pub use tls::{ClientTls, ServerTls};
#[cfg(feature = "tls")]
pub use tls::{TlsError, TlsFiles, Unfit};
