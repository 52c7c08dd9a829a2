//! An embedded v1model switch that interprets p4c's output and serves P4Runtime.

pub mod control;
pub mod engine;
mod error;
mod pipeline;
mod switch;

pub use error::{ControlError, LoadError};
pub use pipeline::Pipeline;
pub use switch::Switch;
