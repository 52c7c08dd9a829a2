//! Tests of the simulation and of the flow model.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod flow;
mod matrix;
mod studies;
