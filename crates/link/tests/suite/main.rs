//! Tests of ports and links.

#![allow(clippy::unwrap_used, reason = "all of it is a test")]

mod bypass;
mod cable;
mod condition;
mod datagrams;
mod ether_type;
mod in_process;
mod interface;
