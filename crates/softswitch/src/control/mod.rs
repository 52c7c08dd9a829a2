//! The state that the control plane reads and writes, in P4Runtime's terms but without its messages.
//!
//! Tables, actions, match fields, parameters and counters are named by their P4Info ids. Values are big-endian byte
//! strings: of any length that holds the value when written, canonical (no leading zeros, at least one byte) when read.
//! The operations are methods of [`Switch`](crate::Switch); they run on the switch's own thread through
//! [`Control::run`](crate::engine::Control::run).

mod checkpoint;
mod counters;
mod described;
mod digests;
mod meters;
mod profiles;
mod registers;
mod replication;
mod tables;
mod value_sets;

pub use checkpoint::{Checkpoint, Part};

use std::time::Duration;

/// The condition of one match field of an entry on the packet.
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

/// Key of a table entry: in P4Runtime, the table, the match fields and the priority.
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
    /// The packets that the entry matches.
    pub key: EntryKey,
    /// The action of the entry.
    pub action: EntryAction,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
    /// The time without a packet after which the switch notifies the controller; zero: never.
    pub idle_timeout: Duration,
}

impl TableEntry {
    /// An entry without a note, and without a timeout.
    pub fn new(key: EntryKey, action: impl Into<EntryAction>) -> Self {
        Self { key, action: action.into(), metadata: Vec::new(), idle_timeout: Duration::ZERO }
    }
}

/// Effect of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryAction {
    /// Runs an action.
    Call(ActionCall),
    /// Runs the action of a member of the table's action profile.
    Member(u32),
    /// Runs the action of one member of a group, as the selector's hash chooses.
    Group(u32),
    /// Runs one of these actions, as the selector's hash chooses.
    OneShot(Vec<WeightedCall>),
}

impl From<ActionCall> for EntryAction {
    fn from(call: ActionCall) -> Self {
        Self::Call(call)
    }
}

/// The port on which it depends whether a selector chooses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watch {
    /// None: it may always be chosen.
    #[default]
    Nothing,
    /// It is not chosen while this port is down.
    Port(u16),
    /// The same, in the form of older controllers.
    PortNumber(u16),
}

impl Watch {
    /// The port, if there is one.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Nothing => None,
            Self::Port(port) | Self::PortNumber(port) => Some(port),
        }
    }
}

/// One of the actions between which a selector chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedCall {
    /// The action.
    pub call: ActionCall,
    /// Number of times that it counts.
    pub weight: u32,
    /// The port that has to be up for it.
    pub watch: Watch,
}

/// A member of an action profile or selector: an action that entries refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileMember {
    /// Id of the action profile.
    pub profile_id: u32,
    /// Its id in the profile.
    pub member_id: u32,
    /// The action of the member.
    pub action: ActionCall,
}

/// A group of an action selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileGroup {
    /// Id of the selector.
    pub profile_id: u32,
    /// Its id in the selector.
    pub group_id: u32,
    /// Its members.
    pub members: Vec<GroupMember>,
    /// The most that the weights may add up to; 0: as many as the selector allows.
    pub max_size: u32,
}

/// A member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id.
    pub member_id: u32,
    /// Number of times that it counts.
    pub weight: u32,
    /// The port that has to be up for it.
    pub watch: Watch,
}

/// Value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as they came in.
    pub bytes: u64,
}

/// The rates of a meter: tokens a second, packets or bytes as the program says, and the most tokens at
/// once. The peak rate is not below the committed one; a meter with a single rate has it as the peak rate, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterConfig {
    /// Packets within it are green.
    pub committed_rate: u64,
    /// The committed rate's burst.
    pub committed_burst: u64,
    /// Packets above it are red.
    pub peak_rate: u64,
    /// The peak rate's burst.
    pub peak_burst: u64,
    /// The burst that a single rate of three colours has for yellow packets; 0 for all other meters.
    pub excess_burst: u64,
}

/// Packets and bytes that a meter has marked, by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterColours {
    /// Within the committed rate.
    pub green: CounterValue,
    /// Above that.
    pub yellow: CounterValue,
    /// Above the peak rate, or the excess burst.
    pub red: CounterValue,
}

/// Owner of a direct counter or meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryRef {
    /// An entry of a table.
    Entry(EntryKey),
    /// The default entry of this table.
    Default(u32),
}

/// A table's default entry, for packets that nothing matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultEntry {
    /// Its action; `None`: nothing is done.
    pub action: Option<ActionCall>,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
    /// The entry's counter and meter.
    pub resources: DirectResources,
}

/// Resources of an entry besides its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectResources {
    /// Its counter; `None` where the table has none.
    pub counter: Option<CounterValue>,
    /// Its meter's rates; `None` where the table has no meter, or all packets are green.
    pub meter: Option<MeterConfig>,
    /// The packets that its meter has marked; `None` where the table has no meter.
    pub colours: Option<MeterColours>,
    /// Time since a packet last hit it, or since it was written; `None` where the table has no timeouts.
    pub since_last_hit: Option<Duration>,
    /// True if the program fixed the entry, so that its action cannot be changed.
    pub constant: bool,
}

/// Configuration of a digest by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestConfig {
    /// Time for which a message may wait for others; zero: not at all.
    pub max_timeout: Duration,
    /// The most messages of a list; 0: as many as the switch likes.
    pub max_list_size: usize,
    /// The time in which the same message is not sent again, unless the controller acknowledges it.
    pub ack_timeout: Duration,
}

/// Messages of a digest that the switch sends together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestList {
    /// The id that the controller acknowledges.
    pub list_id: u64,
    /// The values of each message's fields, canonical.
    pub messages: Vec<Vec<Vec<u8>>>,
}

/// Notification from the switch to its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Messages of a digest.
    Digests {
        /// Id of the digest.
        digest_id: u32,
        /// The messages.
        list: DigestList,
    },
    /// Entries that no packet has hit for as long as their timeouts.
    Idle(Vec<TableEntry>),
}

/// One copy that a multicast group makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The port by which the copy leaves.
    pub port: u16,
    /// The `egress_rid` of the copy; different for replicas of a group with the same port.
    pub instance: u16,
}

/// A clone session of the packet replication engine: what becomes of a clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneSession {
    /// Its id, from 1 to 32767.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// The class of service, kept for the controller: this switch has one queue for all.
    pub class_of_service: u32,
    /// Number of bytes of the packet that a clone carries; 0: all. Headers stay whole.
    pub packet_length: u32,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
}

impl CloneSession {
    /// The most bytes that a clone carries.
    pub(crate) fn limit(&self) -> usize {
        match self.packet_length {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }
}

/// A multicast group of the packet replication engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MulticastGroup {
    /// Its id, `mcast_grp` in the program; never 0.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// For each replica, in the same order, those that take its place while its port is down, the best
    /// first. Empty where no replica has any. A replica that has some is left out while none of the ports is up.
    pub backups: Vec<Vec<Replica>>,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
}
