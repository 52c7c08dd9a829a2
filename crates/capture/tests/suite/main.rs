//! Tests of recordings of frames: reading them, and replaying them.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod reader;
mod replay;
