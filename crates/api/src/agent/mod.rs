//! The API of a host's agent for the training processes on that host.

mod moments;
mod segment;

pub use moments::Moments;
pub use segment::{SegmentName, SegmentNameError};

/// The most training processes of a host in one job.
pub const MAX_PROCESSES: u16 = 1024;

/// The messages and the service as generated from `proto/tributary/agent/v1/agent.proto`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("../generated/tributary.agent.v1.rs");
}
