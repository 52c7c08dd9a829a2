//! Fuzzing of every parser of bytes from outside, and of properties that hold for any bytes.
//!
//! A [`Target`] is a function of bytes that panics if a property does not hold. Each target has a separate
//! file, with its checks and with the *seeds* from which mutations start. This project's encoders make the
//! seeds; they are checked in under `corpus/`.
//!
//! Targets run in three ways. `cargo test` tries a few thousand inputs, which are the same each time. `make
//! fuzz` tries inputs for a given time, guided by coverage (`engine/`). `--replay` runs a single input.

mod bounded;
mod corpus;
mod finding;
mod input;
mod mutate;
mod packets;
mod program;
mod targets;

pub use corpus::{corpus_folder, corpus_of, seeds_of};
pub use finding::{Finding, check};
pub use mutate::Mutator;

/// A test of one parser, or of several parsers that read the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The target's name, which is also the name of its file and of its folder in the corpus.
    pub name: &'static str,
    /// The source of the target's bytes, and the properties that it checks.
    pub about: &'static str,
    /// The greatest useful length of an input.
    pub max_len: usize,
    /// Number of inputs that a test tries. They take about a second in a debug build.
    pub tries: u32,
    /// The check, which panics if a property does not hold.
    pub run: fn(&[u8]),
    /// Makes the seeds, by name.
    pub(crate) seeds: fn() -> Vec<Seed>,
}

/// An input that this project's encoders made, with its name.
pub type Seed = (String, Vec<u8>);

/// All targets.
pub const TARGETS: [Target; 15] = targets::ALL;
