//! Fuzzing: every parser of bytes from outside, and properties that hold for any bytes.
//!
//! A [`Target`] is a function of bytes that panics when something is wrong. Each has a file of its own, with its checks
//! and with the *seeds* from which mutations start. Seeds are made by our own encoders, and checked in under `corpus/`.
//!
//! Targets run in three ways: `cargo test` tries a few thousand inputs, the same ones each time; `make fuzz` tries as
//! many as there is time for, guided by coverage (`engine/`); and `--replay` runs a single one.

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

/// One parser, or several that read the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is also that of its file and of its folder in the corpus.
    pub name: &'static str,
    /// The source of its bytes, and the properties that are checked.
    pub about: &'static str,
    /// The greatest useful length of an input.
    pub max_len: usize,
    /// Number of inputs that a test tries: about a second's worth in a debug build.
    pub tries: u32,
    /// The check; it panics if a property does not hold.
    pub run: fn(&[u8]),
    /// Makes the seeds, by name.
    pub(crate) seeds: fn() -> Vec<Seed>,
}

/// An input that our own encoders made.
pub type Seed = (String, Vec<u8>);

/// All targets.
pub const TARGETS: [Target; 15] = targets::ALL;
