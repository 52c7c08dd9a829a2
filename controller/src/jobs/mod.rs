//! Jobs: their resources and members, and how they begin, change and end.

mod attendee;
mod crew;
mod decision;
mod desired;
mod detachment;
mod error;
mod generation;
mod invitations;
mod job;
mod measured;
mod member;
mod profiles;
mod record;
mod registry;
mod surroundings;

pub(crate) use attendee::{Attendee, Place, SessionId};
pub(crate) use decision::{Step, Target, next_step};
pub(crate) use desired::add_job;
pub(crate) use detachment::{Detachment, OnDegraded, words as detachment_words};
pub(crate) use error::JobError;
pub(crate) use generation::{Beginning, Generation, Stage};
pub(crate) use job::{Answered, Job, Joined, Joining, State};
pub(crate) use measured::LastChange;
pub(crate) use profiles::{Agreed, HandedIn, Number, Outcome};
pub(crate) use record::{JobRecord, Terms};
pub use registry::JOB_HISTORY;
pub(crate) use registry::{JobKey, Registry};
pub(crate) use surroundings::{Signs, Surroundings};
