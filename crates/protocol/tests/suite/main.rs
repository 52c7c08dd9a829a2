//! Tests of the protocol's workers and servers through the public interface.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod alone;
mod bounds;
mod broadcast;
mod fabric;
mod format;
mod generation_changes;
mod generations;
mod joint;
mod pairs;
mod reduce_scatter;
mod schedules;
mod server;
mod stripes;
mod takeover;
mod vectors;
mod worker;
mod world;
