//! Tests of P4Runtime's client and of the generated code.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod connect;
mod generated;
mod silent;
