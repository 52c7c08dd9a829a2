//! Tests of the P4Runtime server with the real client session, switch and program.
// A helper function that panics fails its test, as intended.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arbitration;
mod atomicity;
mod bounds;
mod clones;
mod control;
mod counters;
mod cpu_port;
mod defaults;
mod externs;
mod fixture;
mod groups;
mod initial;
mod meters;
mod notifications;
mod packets;
mod pipeline;
mod profiles;
mod reads;
mod roles;
mod server;
mod tables;
mod translated;
