//! The gRPC APIs: between the controller and the host agents, between an agent and the training
//! processes of its host ([`agent`]), and between workers and a parameter server ([`ps`]).
//!
//! [`v1`] is generated from `proto/tributary/controller/v1/controller.proto`. The configuration of a job's member
//! ([`v1::JobConfig`]) has a validated form, [`JobConfig`], in the types of the packets, which need not be checked
//! again.
//!
//! Generated code is checked in, under `src/generated`; after a change under `proto`, `make protos` regenerates it.

pub mod agent;
mod bounds;
mod config;
mod convert;
mod credentials;
mod error;

pub use config::{DownPath, Endpoint, FinishedSlice, JobConfig, Role, TakeOver};
pub use credentials::JobCredentials;
pub use error::ConfigError;
pub use tributary_wire::Downlink;

/// The most characters that a job's name may have.
pub const MAX_JOB_NAME: usize = 64;

/// The largest message between the controller and a host, in bytes: a client accepts it from the
/// controller, and the controller from members of its jobs. gRPC's usual 4 MiB are too few for finished slices in
/// [`v1::TakeOver`] and
/// [`v1::Provided`]: up to one for each slot of the window, of 1 KiB (256 values) to 8 KiB (2,048 values) and a
/// little more.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The messages and the service as generated.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/tributary.controller.v1.rs");
}

/// When gradients leave, as agents and the controller exchange it; generated from
/// `proto/tributary/schedule/v1/schedule.proto`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod schedule {
    include!("generated/tributary.schedule.v1.rs");
}

/// The parameter server's messages and service, generated from `proto/tributary/ps/v1/ps.proto`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod ps {
    include!("generated/tributary.ps.v1.rs");
}
