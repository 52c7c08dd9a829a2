//! The targets, one per file.

mod captures;
mod codes;
mod entries;
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

/// All targets. Targets whose bytes come from more remote senders are first.
pub(crate) const ALL: [Target; 15] = [
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
    captures::TARGET,
    entries::TARGET,
    journal::TARGET,
    topology::TARGET,
    settings::TARGET,
];
