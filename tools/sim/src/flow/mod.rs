//! A fluid model of whole clusters: no packets, only rates.
//!
//! The packet simulation ([`crate::run`]) moves every packet of one job, which is too much for thousands of workers.
//! Here a transfer is a [`Stream`] that uses link directions at one rate. All streams share each direction by max–min
//! fairness ([`max_min`]); the next event is the end of a stream or of a computation, a change of the background
//! traffic, a failure or its repair ([`simulate`]). Aggregation trees are the [planner](tributary_planner)'s, with its
//! slots, fan-ins and loads; methods without the fabric are in `hosts`. The model's assumptions are in [`Assumptions`]
//! and, in words, in `docs/scale.md`.
//!
//! The same [`Setup`] gives the same [`Outcome`] every time, on every machine.

mod assumptions;
mod background;
mod engine;
mod error;
mod hosts;
mod job;
mod network;
mod ordered;
mod outage;
mod outcome;
mod planned;
mod route;
mod setup;
mod share;
pub mod study;

pub use assumptions::Assumptions;
pub use background::Background;
pub use engine::simulate;
pub use error::FlowError;
pub use job::{Compute, Job, Method};
pub use outage::{Down, Outage};
pub use outcome::{Iteration, JobOutcome, Outcome};
pub use setup::Setup;
pub use share::{Stream, max_min};
