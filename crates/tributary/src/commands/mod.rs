//! Commands for users. Each command makes a request, shows or changes a state, and ends.

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
