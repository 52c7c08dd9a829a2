//! Commands for users: each command requests, shows or changes something, and ends.

pub(crate) mod allreduce;
pub(crate) mod certs;
pub(crate) mod counters;
pub(crate) mod doctor;
pub(crate) mod jobs;
pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod moved;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod topology;
