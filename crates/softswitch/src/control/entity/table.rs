//! Entries of tables.

use std::time::Duration;

use super::{ActionCall, CounterValue, FieldMatch, MeterColours, MeterConfig, WeightedCall};

/// Key of a table entry: in P4Runtime, the table, the match fields and the priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// Id of the table.
    pub table_id: u32,
    /// Match fields. Writers may give them in any order; readers get them ordered by id.
    pub matches: Vec<FieldMatch>,
    /// The priority; the larger number wins. It is above 0 in tables with ternary, range or
    /// optional fields, otherwise 0.
    pub priority: i32,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The packets that the entry matches.
    pub key: EntryKey,
    /// The action of the entry.
    pub action: EntryAction,
    /// The controller's own data, which the switch returns unchanged.
    pub metadata: Vec<u8>,
    /// The time without a packet after which the switch notifies the controller; zero disables the
    /// notification.
    pub idle_timeout: Duration,
}

impl TableEntry {
    /// Creates an entry without controller data and without a timeout.
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

/// Owner of a direct counter or meter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryRef {
    /// An entry of a table.
    Entry(EntryKey),
    /// The default entry of this table.
    Default(u32),
}

/// A table's default entry, for packets that match no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultEntry {
    /// The default action; `None` if such packets run no action.
    pub action: Option<ActionCall>,
    /// The controller's own data, which the switch returns unchanged.
    pub metadata: Vec<u8>,
    /// The entry's counter and meter.
    pub resources: DirectResources,
}

/// Resources of an entry besides its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectResources {
    /// The counter; `None` if the table has no counters.
    pub counter: Option<CounterValue>,
    /// The rates of the meter; `None` if the table has no meters, or if all packets are green.
    pub meter: Option<MeterConfig>,
    /// The packets that the meter has marked; `None` if the table has no meters.
    pub colours: Option<MeterColours>,
    /// Time since a packet last hit the entry, or since it was written; `None` if the table has no
    /// timeouts.
    pub since_last_hit: Option<Duration>,
    /// True if the program fixed the entry, so that its action cannot be changed.
    pub constant: bool,
}
