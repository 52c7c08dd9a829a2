//! Tests of topologies.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod derived;
mod errors;
mod evolve;
mod fat_tree;
mod limits;
mod queries;
mod rates;
mod shipped;
