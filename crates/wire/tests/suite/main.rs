//! Tests of the wire format.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod constants;
mod frames;
mod identifiers;
mod probe;
mod refused;
mod round_trip;
mod values;
mod width;
