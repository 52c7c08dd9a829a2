//! Connections between servers (the controller, a parameter server) and their clients: TCP, with
//! mutual TLS or in plain text.
//!
//! With TLS, both sides show a certificate, and each side trusts only certificates that its CA has signed. A server
//! reads the names in its client's certificate ([`Peer`]) and decides the rights of each name. Only TLS 1.3 is
//! supported, without resumption, so every connection is verified again. A process refuses to load a certificate that
//! the other side could not trust.
//!
//! TLS needs the feature `tls`, which the binary has. `make demo`, which runs in one process, works without it. Without
//! the feature, [`ClientTls`] and [`ServerTls`] have no values. Code that needs TLS therefore does not compile, and
//! cannot communicate in plain text by mistake.
//!
//! All input is limited before it is trusted: the number of connections and the time for which they may be silent
//! ([`incoming`]), the size of a request ([`BySize`]), and the growth of a request in memory ([`BoundedCodec`]).
//!
//! Both sides report every problem with certificates in a sentence that names the remedy.

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
