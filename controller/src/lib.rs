//! The controller: jobs, slots, and the tables of every switch.

mod forwarding;
mod ids;
mod pipeline;
mod reconcile;
mod slots;
mod state;
mod tables;
mod token;

pub use pipeline::PipelineError;
