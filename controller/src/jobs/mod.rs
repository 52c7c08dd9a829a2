//! Jobs: their resources and members, and how they start, change and end.

mod decision;
mod decision_inputs;
mod degraded_policy;
mod desired;
mod detachment;
mod error;
mod generation;
mod invitations;
mod job;
mod measured;
mod member;
mod membership_view;
mod participant;
mod profiles;
mod progress;
mod progress_report;
mod record;
mod registry;

pub(crate) use decision::{DesiredGeneration, Step, next_step};
pub(crate) use decision_inputs::{DecisionInputs, LifeSigns};
pub(crate) use degraded_policy::description as detachment_description;
pub(crate) use desired::add_job;
pub(crate) use detachment::{Detachment, OnDegraded};
pub(crate) use error::JobError;
pub(crate) use generation::{Beginning, Generation, GenerationKey, JobKey, Stage};
pub(crate) use job::{Answered, Job, JobState, Joined, Joining};
pub(crate) use measured::LastChange;
pub(crate) use participant::{Participant, ParticipantId, SessionId};
pub(crate) use profiles::{Agreed, HandedIn, Number, ProfileOutcome};
pub(crate) use progress_report::ProcessReport;
pub(crate) use record::{GroupId, JobRecord, Terms};
pub use registry::JOB_HISTORY;
pub(crate) use registry::Registry;
