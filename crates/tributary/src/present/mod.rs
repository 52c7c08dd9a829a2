//! Results as tables and pictures, where several commands show the same.

pub mod plan;
pub mod schedule;
