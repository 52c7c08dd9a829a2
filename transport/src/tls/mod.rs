//! Mutual TLS.
//!
//! Outside of this folder the crate knows of it only what `without_tls.rs` has, too.

mod client;
mod current;
mod error;
mod files;
mod server;
mod words;

pub use client::ClientTls;
pub use error::TlsError;
pub use files::TlsFiles;
pub use server::ServerTls;

/// What gRPC is called when TLS negotiates what is spoken.
const HTTP2: &[u8] = b"h2";
