//! Results as tables and pictures that several commands show.

pub mod plan;
pub mod schedule;
