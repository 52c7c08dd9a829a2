//! The switch running the real program, driven with frames.

mod gradients;
mod results;
mod support;
