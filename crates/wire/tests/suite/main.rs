//! Tests of the wire format.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod constants;
mod probe;
mod round_trip;
