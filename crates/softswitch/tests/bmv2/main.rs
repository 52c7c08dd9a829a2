//! Compares the embedded switch with BMv2: the same program, the same requests, the same packets.
//!
//! Needs `simple_switch_grpc`; without it the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod constructs;
mod entities;
mod packet_stream;
mod packets;
mod pair;
mod reload;
mod requests;
mod steps;
mod surface;
mod tables;
mod traffic;
