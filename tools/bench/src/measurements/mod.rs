//! The measurements, one module for each subcommand.

pub(crate) mod agent;
pub(crate) mod allreduce;
mod common;
mod counters;
pub(crate) mod degraded;
pub(crate) mod endurance;
mod networks;
pub(crate) mod node;
pub(crate) mod plan;
mod ranks;
pub(crate) mod scale;
pub(crate) mod schedule;
pub(crate) mod simulate;
pub(crate) mod switch;
