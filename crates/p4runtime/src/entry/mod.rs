//! Table entries, counters, multicast groups and packets by name, and their conversion to messages
//! and back.
//!
//! The conversion checks everything against the [P4Info](crate::p4info::P4Info) in both directions.
//! Errors name the table, action or counter and the field.

mod action;
mod counter;
mod entity;
mod error;
mod field_match;
mod key;
mod multicast;
mod packet;
mod table;
#[cfg(test)]
mod tests;

pub use action::ActionCall;
pub use counter::CounterCell;
pub use entity::{Entity, Query, kind};
pub use error::EntryError;
pub use field_match::Match;
pub use multicast::{LAST_GROUP, MulticastGroup, Replica};
pub use packet::ControllerPacket;
pub use table::TableEntry;
