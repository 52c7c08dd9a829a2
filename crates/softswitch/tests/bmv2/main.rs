//! Compares the embedded switch with BMv2: the same program, the same requests, the same packets.
//!
//! The tests need `simple_switch_grpc`; without it they report this and pass.
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
