//! What the control plane reads and writes, in P4Runtime's terms but without its messages.
//!
//! Tables, actions, match fields, parameters and counters are named by their P4Info ids. Values are big-endian byte
//! strings: of any length that holds the value when written, canonical (no leading zeros, at least one byte) when read.
//! The operations are methods of [`Switch`](crate::Switch); they run on the switch's own thread through
//! [`Control::run`](crate::engine::Control::run).

mod counters;
mod tables;

/// What one match field of an entry requires of the packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// Matches the whole value.
    Exact(Vec<u8>),
    /// Matches the bits that `mask` has set. A field that is left out matches anything.
    Ternary {
        /// The bits to match; zero where `mask` is.
        value: Vec<u8>,
        /// Which bits matter; never all zeros.
        mask: Vec<u8>,
    },
    /// Matches the first `prefix_len` bits. A field that is left out matches anything.
    Lpm {
        /// The prefix; zero behind its end.
        value: Vec<u8>,
        /// Its length in bits; never zero.
        prefix_len: u32,
    },
    /// Matches from `low` to `high`, both included. A field that is left out matches anything.
    Range {
        /// The lowest value that matches.
        low: Vec<u8>,
        /// The highest value that matches.
        high: Vec<u8>,
    },
    /// Matches the whole value. A field that is left out matches anything.
    Optional(Vec<u8>),
}

/// A match field and its required value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldMatch {
    /// Id of the match field in its table (1, 2, ...).
    pub field_id: u32,
    /// The required value.
    pub key: KeyMatch,
}

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// Id of the action.
    pub action_id: u32,
    /// Parameter ids (1, 2, ...) and values; all of the action's, in any order when written.
    pub params: Vec<(u32, Vec<u8>)>,
}

/// What identifies an entry of a table: P4Runtime's rule, the match fields and the priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// Id of the table.
    pub table_id: u32,
    /// Match fields, in any order when written, by id when read.
    pub matches: Vec<FieldMatch>,
    /// The larger number wins. Above 0 in tables with ternary, range or optional fields, else 0.
    pub priority: i32,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// What it matches.
    pub key: EntryKey,
    /// What it does.
    pub action: ActionCall,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
}

/// What a counter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as they came in.
    pub bytes: u64,
}

/// One copy that a multicast group makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The port by which the copy leaves.
    pub port: u16,
    /// `egress_rid` of the copy; different for replicas of a group with the same port.
    pub instance: u16,
}

/// A multicast group of the packet replication engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Its id, `mcast_grp` in the program; never 0.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
}
