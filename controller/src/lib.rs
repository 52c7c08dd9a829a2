//! The controller: jobs, slots, and the tables of every switch.
//!
//! It owns the topology, and keeps under one lock its jobs and who owns which slots (`state`). What a switch should
//! hold is a pure function of both (`forwarding`, `jobs`); what it does hold is read from it, and the difference
//! (`switch_diff`) is written. So a switch that has lost its memory, or that still has an earlier controller's entries,
//! is brought into the same state as any other.
//!
//! Agents reach it through the gRPC API (`service`). Each switch has a task with a P4Runtime session
//! (`switch`). The `manager` brings these together.

mod access;
mod answer;
mod clock;
mod controller;
mod error;
mod events;
mod explain;
mod fallback;
mod forwarding;
mod host_session;
mod hosts;
mod ids;
mod jobs;
mod journal;
mod liveness;
mod loads;
mod manager;
mod observer;
mod orphans;
mod p4_target;
mod pipeline;
mod quotas;
mod reconciler;
mod request;
mod schedules;
mod service;
mod sizes;
mod slots;
mod state;
mod switch;
mod switch_diff;
mod switch_state;
mod tables;
#[cfg(test)]
mod testing;
mod token;
mod watch;
mod wrong_sum;

pub use access::ControllerTls;
pub use controller::{Controller, ControllerConfig, RunningController, SwitchAddress};
pub use error::{RefusedChange, StartError, SwitchError};
pub use jobs::JOB_HISTORY;
pub use journal::{JournalError, check_record};
pub use observer::Observer;
pub use pipeline::{BuiltInPipeline, PipelineError, PipelineSource, built_in_pipelines, built_in_slots};
pub use quotas::Quotas;
pub use state::Reload;
