//! How servers (the controller, a parameter server) and their clients reach each other: TCP, with mutual TLS or in
//! plain text.
//!
//! With TLS both sides show a certificate, and each believes only those that its CA has signed. A server
//! learns the names in its caller's certificate ([`Peer`]); what a name may do is the server's to say. Only TLS
//! 1.3 is spoken, and nothing is resumed: every connection is verified anew.
//!
//! Whatever can be wrong with certificates comes back as a sentence that says what to do, on both sides.

mod client;
mod connection;
mod current;
mod error;
mod files;
mod first_words;
mod names;
mod server;
mod service;
mod words;

pub use client::{ClientTls, Remote};
pub use connection::{Connection, Peer};
pub use error::{ConnectError, TlsError};
pub use files::TlsFiles;
pub use names::{Names, NotItsHost};
pub use server::{ServerTls, incoming};
pub use service::Service;
pub use words::innermost;
