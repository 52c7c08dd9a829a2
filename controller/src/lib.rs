//! The controller manages jobs, slots, and the tables of every switch.
//!
//! It owns the topology. One lock protects its jobs and the owners of slots (`state`). The desired state of a switch is
//! a pure function of the topology and the jobs (`forwarding`, `jobs`). The controller reads the actual state from the
//! switch and writes the difference (`switch_diff`). A switch that has lost its memory, or that still has entries of an
//! earlier controller, therefore needs no special treatment.
//!
//! Agents reach the controller through the gRPC API (`service`). Each switch has a task with a P4Runtime session
//! (`switch`). The `manager` connects these parts.

mod access;
mod answer;
mod clock;
mod controller;
mod error;
mod events;
mod explain;
mod fallback;
mod forwarding;
mod groups;
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
