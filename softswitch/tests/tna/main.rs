//! The suite again, with the program for Tofino as `p4/shim` adapts it to v1model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod against_v1model;
mod planted;
mod program;

#[path = "../suite/admission.rs"]
mod admission;
#[path = "../suite/allocation.rs"]
mod allocation;
#[path = "../suite/control.rs"]
mod control;
#[path = "../suite/engine.rs"]
mod engine;
#[path = "../suite/gradients.rs"]
mod gradients;
#[path = "../suite/model.rs"]
mod model;
#[path = "../suite/plain.rs"]
mod plain;
#[path = "../suite/results.rs"]
mod results;
#[path = "../suite/robustness.rs"]
mod robustness;
#[path = "../suite/support.rs"]
mod support;
#[path = "../bmv2/tables.rs"]
mod tables;
#[path = "../bmv2/traffic.rs"]
mod traffic;
#[path = "../suite/widths.rs"]
mod widths;
