//! Tests of codecs through the public interface.

#![allow(clippy::panic, clippy::unwrap_used, reason = "all of it is a test")]

mod golden;
mod malformed;
mod round_trip;
mod shared;
mod support;
