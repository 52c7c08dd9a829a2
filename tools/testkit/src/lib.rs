//! Helpers for the tests of several crates, for use under `[dev-dependencies]` only.
//!
//! A dependency of this crate may use it in `tests/`. The dependency's unit tests may use only helpers
//! without types of the dependency, because cargo compiles the dependency twice for them: once for the test,
//! and once for this crate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::path::{Path, PathBuf};

#[cfg(feature = "daemons")]
pub mod binary;
#[cfg(feature = "daemons")]
pub mod certificates;
pub mod compiled;
#[cfg(feature = "daemons")]
pub mod controller;
pub mod generated;
#[cfg(feature = "daemons")]
pub mod labs;
pub mod metrics;
pub mod netns;
#[cfg(feature = "daemons")]
pub mod network;
pub mod simple_switch;
#[cfg(feature = "daemons")]
pub mod terminal;
#[cfg(feature = "daemons")]
pub mod test_lab;
#[cfg(feature = "topologies")]
pub mod topologies;
#[cfg(feature = "daemons")]
pub mod user;

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A topology with two workers and a server on a switch that only forwards, so that no switch must run.
pub const PLAIN: &str = r#"
    name = "plain"
    description = "Two workers and a server on a switch that only forwards"
    [defaults]
    rate = "1 Gbit/s"
    [[switch]]
    name = "hub"
    programmable = false
    [[host]]
    name = "w0"
    role = "worker"
    [[host]]
    name = "w1"
    role = "worker"
    [[host]]
    name = "ps"
    role = "server"
    [[link]]
    ends = ["hub", "w0"]
    [[link]]
    ends = ["hub", "w1"]
    [[link]]
    ends = ["hub", "ps"]
"#;
