//! The switch running the real program, driven with frames.

mod admission;
mod constructs;
mod control;
mod gradients;
mod model;
mod plain;
mod refusal;
mod results;
mod robustness;
mod support;
