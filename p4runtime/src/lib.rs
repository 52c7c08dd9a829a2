//! P4Runtime messages, P4Info by name, and a small client session.

pub mod proto;

pub use proto::{google, p4};
