//! The entities of the control plane, as plain data: entries, counters, meters, digests, replication.

mod action;
mod counter;
mod key_match;
mod meter;
mod notification;
mod profile;
mod replication;
mod table;

pub use action::ActionCall;
pub use counter::CounterValue;
pub use key_match::{FieldMatch, KeyMatch};
pub use meter::{MeterColours, MeterConfig};
pub use notification::{DigestConfig, DigestList, Notification};
pub use profile::{GroupMember, ProfileGroup, ProfileMember, Watch, WeightedCall};
pub use replication::{CloneSession, MulticastGroup, Replica};
pub use table::{DefaultEntry, DirectResources, EntryAction, EntryKey, EntryRef, TableEntry};
