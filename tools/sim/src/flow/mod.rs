//! A fluid model of whole clusters, which computes rates instead of packets.
//!
//! The packet simulation ([`crate::run`]) moves every packet of one job, which takes too long for thousands
//! of workers. Here a transfer is a [`Stream`] that uses link directions at one rate. All streams share each
//! link direction by max–min fairness ([`max_min`]). The next event is the end of a stream or of a
//! computation, a change of the background traffic, a failure, or its repair ([`simulate`]). The
//! [planner](tributary_planner) computes the aggregation trees, with their slots, fan-ins and loads. The
//! module `hosts` has the methods without the fabric. The model's assumptions are in [`Assumptions`] and, in
//! words, in `docs/scale.md`.
//!
//! The same [`Setup`] gives the same [`FlowOutcome`] every time, on every machine.

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
pub use outcome::{FlowOutcome, Iteration, JobOutcome};
pub use setup::Setup;
pub use share::{Stream, max_min};
