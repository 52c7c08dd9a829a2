//! The targets, one per file.

mod codes;
mod frames;
mod jobs;
mod journal;
mod p4info;
mod p4runtime;
mod program;
mod protocol;
mod schedule;
mod settings;
mod switch;
mod topology;
mod training;

use crate::Target;

/// All targets, those with the most remote sources of bytes first.
pub(crate) const ALL: [Target; 13] = [
    frames::TARGET,
    protocol::TARGET,
    switch::TARGET,
    codes::TARGET,
    training::TARGET,
    jobs::TARGET,
    schedule::TARGET,
    p4runtime::TARGET,
    p4info::TARGET,
    program::TARGET,
    journal::TARGET,
    topology::TARGET,
    settings::TARGET,
];
