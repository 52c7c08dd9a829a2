//! The switch running the real program, driven with frames.

mod admission;
mod constructs;
mod gradients;
mod model;
mod plain;
mod results;
mod robustness;
mod support;
