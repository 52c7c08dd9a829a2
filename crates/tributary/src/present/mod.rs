//! Results as tables and pictures, where several commands show the same.

pub(crate) mod plan;
pub(crate) mod schedule;
