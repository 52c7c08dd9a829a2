//! The P4Runtime server as a controller sees it: the real client session against the real server, which
//! controls the real switch with the real program.
// A helper that panics fails its test, as it should.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arbitration;
mod atomicity;
mod bounds;
mod clones;
mod control;
mod counters;
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
