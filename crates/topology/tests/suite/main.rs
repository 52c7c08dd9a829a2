//! Tests of topologies.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod errors;
mod evolve;
mod fat_tree;
mod shipped;
