//! The kinds of entities that controllers write and read, one file for each.
//!
//! `plan` turns an update into an operation of the switch, `query` turns a pattern of a Read into queries, and `entity`
//! turns a result into a message.

pub(super) mod counters;
pub(super) mod digests;
pub(super) mod meters;
pub(super) mod profiles;
pub(super) mod registers;
pub(super) mod replication;
pub(super) mod tables;
pub(super) mod value_sets;
