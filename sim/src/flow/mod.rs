//! A fluid model of whole clusters: no packets, only rates.
//!
//! The simulation beside this one ([`crate::run`]) moves every packet of one job, which is too much for thousands of
//! workers. Here a transfer is a [`Stream`] that uses link directions at one rate; all streams share each direction by
//! max–min fairness ([`max_min`]), and the next thing that happens is a stream's end, the end of a computation, a change of
//! the background traffic, a failure or its mending ([`simulate`]). Aggregation trees are those that the
//! [planner](tributary_planner) makes, with its slots, fan-ins and loads; what workers do without the fabric is in
//! `hosts`. What the model takes for granted is in [`Assumptions`] and, in words, in `docs/scale.md`.
//!
//! The same [`Setup`] has the same [`Outcome`] every time, on every machine.

mod background;
mod engine;
mod error;
mod fabric;
mod hosts;
mod job;
mod network;
mod ordered;
mod outcome;
mod route;
mod setup;
mod share;
pub mod study;

pub use background::Background;
pub use engine::simulate;
pub use error::FlowError;
pub use job::{Compute, Job, Method};
pub use outcome::{Iteration, JobOutcome, Outcome};
pub use setup::{Assumptions, Down, Outage, Setup};
pub use share::{Stream, max_min};
