//! Tests of the switch with the project's program: frames in, frames out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[macro_use]
mod test_program;

mod admission;
mod allocation;
mod compiled;
mod constructs;
mod control;
mod engine;
mod expressions;
mod gradients;
mod language;
mod model;
mod packet_log;
mod paths;
mod plain;
mod program;
mod refusal;
mod results;
mod robustness;
mod support;
mod widths;
