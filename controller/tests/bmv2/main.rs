//! The controller, the P4 program and the agents with the real BMv2.
//!
//! Needs `simple_switch_grpc`, root and `ip` (iproute2); says so and passes where they are missing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod collective;
#[path = "../common/mod.rs"]
mod common;
mod fabric;
#[path = "../../../link/tests/netns/mod.rs"]
mod netns;
mod reconciliation;
#[path = "../../../softswitch/tests/bmv2/simple_switch.rs"]
mod simple_switch;
#[path = "../switches/mod.rs"]
mod switches;
mod team;
