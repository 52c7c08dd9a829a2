//! Measurements of Tributary beside what people would use instead.
//!
//! A measurement is repeated, and the candidates take turns: what disturbs the machine disturbs all of them.
//! [`statistics`] says what came out of it.
//!
//! - [`switch_lab`]: one switch between real interfaces, under the load of the [`generator`].
//! - [`comparison`]: all-reduces of several contenders over the same links.
//! - [`cpu`]: what processes have had of the cores.
//! - [`compile`]: what is measured beside ours and written in C.

pub mod comparison;
pub mod compile;
pub mod cpu;
pub mod generator;
pub mod statistics;
pub mod switch_lab;
