//! End-to-end tests of both programs, and tests of the repository itself.
//!
//! They are one program, which is linked once: `cargo test --workspace --test end_to_end -- lab` runs a part of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod bench_switch;
mod book;
mod c_library;
mod certs;
mod chaos;
mod daemon_settings;
mod daemons;
mod demo;
mod dependencies;
mod doctor;
mod journal;
mod lab;
mod mininet;
mod monitoring;
mod p4_build;
mod page;
mod parameter_server;
mod parameter_server_fabric;
mod plan;
mod ps_codecs;
mod recordings;
mod reload;
mod switch;
mod terminal;
mod tls;
mod wrong_input;
