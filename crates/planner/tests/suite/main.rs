//! Tests of plans and schedules.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod better;
mod choose;
mod degraded;
mod network;
mod random;
mod refused;
mod replan;
mod schedule;
mod shipped;
mod stored;
mod width;
