//! Jobs: what they own, who takes part, and how they begin and end.

mod desired;
mod error;
mod job;
mod member;
mod record;
mod registry;

pub(crate) use desired::add_job;
pub(crate) use error::JobError;
pub(crate) use job::{Attendance, Job, State};
pub(crate) use member::config;
pub(crate) use record::{JobRecord, Resources};
pub(crate) use registry::{JobKey, Registry};
