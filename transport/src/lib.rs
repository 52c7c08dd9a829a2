//! How servers (the controller, a parameter server) and their clients reach each other: TCP, with mutual TLS or in
//! plain text.
//!
//! With TLS both sides show a certificate, and each believes only those that its CA has signed. A server
//! learns the names in its caller's certificate ([`Peer`]); what a name may do is the server's to say. Only TLS
//! 1.3 is spoken, and nothing is resumed: every connection is verified anew. A certificate that the other side could not
//! believe is not even taken from its file.
//!
//! TLS takes the feature `tls`, which the binary has and `make demo`, all in one process, does without. Without it
//! [`ClientTls`] and [`ServerTls`] have no values, and no way to make one: what needs TLS does not compile, rather than
//! talk in plain text.
//!
//! What comes in is bounded before it is believed: by how many connections there are and how long they are silent
//! ([`incoming`]), how large a request may be ([`BySize`]), and how much larger it may become ([`BoundedCodec`]).
//!
//! Whatever can be wrong with certificates comes back as a sentence that says what to do, on both sides.

mod bounded;
mod by_size;
mod cause;
mod connection;
mod error;
mod first_words;
mod incoming;
mod names;
mod remote;
mod room;
mod service;
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
pub use tls::{ClientTls, ServerTls};
#[cfg(feature = "tls")]
pub use tls::{TlsError, TlsFiles, Unfit};
