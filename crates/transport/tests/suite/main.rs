//! Tests of connections: TLS, tokens and limits.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod ca;
mod files;
mod raw;
mod room;
mod trust;
