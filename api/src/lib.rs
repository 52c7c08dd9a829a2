//! The gRPC APIs: between the controller and the host agents, between an agent and the training processes
//! of its host ([`agent`]), and between workers and a parameter server ([`ps`]).
//!
//! [`v1`] is generated from `proto/tributary/controller/v1/controller.proto`. What a member of a job is
//! told ([`v1::JobConfig`]) has a validated form, [`JobConfig`], in the types of the packets: whoever
//! holds one need not check it again.
//!
//! What is generated is checked in, under `src/generated`; after a change under `proto`, `make protos` writes it anew.

pub mod agent;
mod bounds;
mod config;
mod convert;
mod error;
mod ticket;

pub use config::{DownPath, Downlink, Endpoint, FinishedSlice, JobConfig, Role, TakeOver};
pub use error::ConfigError;
pub use ticket::Ticket;

/// The most letters that a job's name may have.
pub const MAX_JOB_NAME: usize = 64;

/// The largest message between the controller and a host, bytes: what a client has to accept of it, and the controller of
/// members of its jobs. gRPC's usual 4 MiB are too few where finished slices travel, in [`v1::TakeOver`] and
/// [`v1::Provided`]: up to one for each slot of the window, of 1 KiB and a little more, so that this has room for a window
/// of 32,768.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The messages and the service as generated.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/tributary.controller.v1.rs");
}

/// When gradients leave, which agents and the controller tell each other, generated from
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
