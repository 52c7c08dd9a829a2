//! The gRPC APIs.
//!
//! Host agents call the controller ([`v1`]), training processes call the agent of their host ([`agent`]), and workers
//! call a parameter server ([`ps`]).
//!
//! [`v1`] is generated from `proto/tributary/controller/v1/controller.proto`. The configuration of a job's member
//! ([`v1::JobConfig`]) has a validated form, [`JobConfig`]. That form uses the types of the packets and need not be
//! checked again.
//!
//! Generated code is checked in under `src/generated`. After a change under `proto`, `make protos` regenerates it.

pub mod agent;
mod bounds;
mod config;
mod convert;
mod credentials;
mod error;

pub use config::{DownPath, Endpoint, FinishedSlice, JobConfig, ProcessCounts, Role, TakeOver};
pub use credentials::JobCredentials;
pub use error::ConfigError;
pub use tributary_wire::Downlink;

/// The maximum number of characters in a job's name.
pub const MAX_JOB_NAME: usize = 64;

/// The maximum size of a message between the controller and a host, in bytes.
/// A client accepts such messages from the controller, and the controller accepts them from members of its jobs. gRPC's
/// default of 4 MiB is too small for the finished slices in [`v1::TakeOver`] and [`v1::Provided`]. There is up to one
/// for each slot of the window, each with 1 KiB (256 values) to 8 KiB (2,048 values) and a header.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The generated messages and service of the controller's API.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/tributary.controller.v1.rs");
}

/// Profiles and schedules, which agents and the controller exchange.
/// Generated from `proto/tributary/schedule/v1/schedule.proto`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod schedule {
    include!("generated/tributary.schedule.v1.rs");
}

/// The parameter server's messages and service, generated from `proto/tributary/ps/v1/ps.proto`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod ps {
    include!("generated/tributary.ps.v1.rs");
}
