//! The client's tests against a simulated agent, in one program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod agent;
mod quantised;
mod silence;
