//! Tests of the parameter server.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod group_reductions;
mod parts;
mod policies;
mod reference;
mod restarts;
mod service;
mod serving;
mod support;
mod trust;
