//! Tests of configurations and of the generated code.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod config;
mod credentials;
mod generated;
mod segment;
