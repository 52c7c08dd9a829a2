//! Tests of labs: their life, their traffic, and disturbances.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod disturb;
mod lifecycle;
mod support;
mod traffic;
