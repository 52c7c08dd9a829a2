//! Fuzzing: every parser of bytes from outside, and what is to be true of it whatever the bytes are.
//!
//! A [`Target`] is a function of bytes that panics when something is wrong; each is a file of its own, with what it
//! checks, and with the *seeds* that mutations begin with. Seeds are made by our own encoders, and checked in under
//! `corpus/`.
//!
//! Three run them: `cargo test` a few thousand inputs, the same ones each time; `make fuzz` as many as there is time for,
//! guided by coverage (`engine/`); and `--replay` one of them.

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
    /// Its name: that of its file, and of its folder in the corpus.
    pub name: &'static str,
    /// Whose bytes these are, and what is checked.
    pub about: &'static str,
    /// Longer inputs show nothing more.
    pub max_len: usize,
    /// Inputs that a test tries; a second's worth in a debug build.
    pub tries: u32,
    /// Panics when what was read from the bytes breaks a promise.
    pub run: fn(&[u8]),
    /// Inputs by name, from which others are made.
    pub(crate) seeds: fn() -> Vec<Seed>,
}

/// An input that our own encoders made.
pub type Seed = (String, Vec<u8>);

/// All of them.
pub const TARGETS: [Target; 13] = targets::ALL;
