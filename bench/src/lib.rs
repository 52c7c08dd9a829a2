//! Measurements of Tributary beside what people would use instead.
//!
//! A measurement is repeated, and the candidates take turns: what disturbs the machine disturbs all of them.
//! [`statistics`] says what came out of it.
//!
//! - [`switch_lab`]: one switch between real interfaces, under the load of the [`generator`].
//! - [`comparison`]: all-reduces of several contenders over the same links.

pub mod comparison;
pub mod generator;
pub mod statistics;
pub mod switch_lab;
