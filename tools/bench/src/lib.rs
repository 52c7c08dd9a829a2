//! Measurements of Tributary beside the software that people would use instead.
//!
//! Measurements are repeated and candidates take turns, so that disturbances of the machine affect all
//! candidates. [`statistics`] summarises the runs.
//!
//! - [`switch_lab`]: one switch between real interfaces, under the load of the [`generator`].
//! - [`comparison`]: all-reduces of several contenders over the same links.
//! - [`cpu`]: processor time of processes.
//! - [`compile`]: baselines that are written in C.

pub mod comparison;
pub mod compile;
pub mod cpu;
pub mod generator;
pub mod statistics;
pub mod switch_lab;
