//! The state that the control plane reads and writes, in P4Runtime's terms but without its
//! messages.
//!
//! Tables, actions, match fields, parameters and counters are identified by their P4Info ids.
//! Values are big-endian byte strings. A written value may have any length that holds it. A value
//! that is read is canonical (no leading zeros, at least one byte). The operations are methods of
//! [`Switch`](crate::Switch); they run on the switch's own thread through
//! [`Control::run`](crate::engine::Control::run).

mod checkpoint;
mod counters;
mod described;
mod digests;
mod entity;
mod meters;
mod profiles;
mod registers;
mod replication;
mod tables;
mod value_sets;

pub use checkpoint::{Checkpoint, Part};
pub use entity::{
    ActionCall, CloneSession, CounterValue, DefaultEntry, DigestConfig, DigestList, DirectResources,
    EntryAction, EntryKey, EntryRef, FieldMatch, GroupMember, KeyMatch, MeterColours, MeterConfig,
    MulticastGroup, Notification, ProfileGroup, ProfileMember, Replica, TableEntry, Watch, WeightedCall,
};
