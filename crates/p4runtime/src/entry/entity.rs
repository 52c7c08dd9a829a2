//! The entities that a controller can write to a switch and read from it, and queries for them.

use std::fmt;

use super::{CounterCell, EntryError, MulticastGroup, TableEntry, counter};
use crate::p4::v1::packet_replication_engine_entry::Type as Replication;
use crate::p4::v1::{self as message, entity, update};
use crate::p4info::P4Info;

/// An entity on a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// An entry, or the default action, of a table.
    Table(TableEntry),
    /// A cell of an indexed counter.
    Counter(CounterCell),
    /// A multicast group.
    Multicast(MulticastGroup),
}

impl Entity {
    /// Converts the entity to a message. An error names the part that does not fit the P4Info.
    pub fn to_proto(&self, p4info: &P4Info) -> Result<message::Entity, EntryError> {
        Ok(wrap(match self {
            Self::Table(entry) => entity::Entity::TableEntry(entry.to_proto(p4info)?),
            Self::Counter(cell) => entity::Entity::CounterEntry(cell.to_proto(p4info)?),
            Self::Multicast(group) => group_entity(group.to_proto()?),
        }))
    }

    /// Converts a message to an entity.
    pub fn from_proto(p4info: &P4Info, message: &message::Entity) -> Result<Self, EntryError> {
        let unsupported = |what| Err(EntryError::Unsupported { place: "an entity".to_owned(), what });
        match &message.entity {
            Some(entity::Entity::TableEntry(entry)) => TableEntry::from_proto(p4info, entry).map(Self::Table),
            Some(entity::Entity::CounterEntry(cell)) => {
                CounterCell::from_proto(p4info, cell).map(Self::Counter)
            }
            Some(entity::Entity::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
                Some(Replication::MulticastGroupEntry(group)) => {
                    MulticastGroup::from_proto(group).map(Self::Multicast)
                }
                Some(Replication::CloneSessionEntry(_)) => unsupported("a clone session"),
                None => unsupported("an empty replication entry"),
            },
            other => unsupported(kind(other.as_ref())),
        }
    }

    /// Returns the update that inserts this entity.
    pub fn insert(&self, p4info: &P4Info) -> Result<message::Update, EntryError> {
        self.update(p4info, update::Type::Insert)
    }

    /// Returns the update that replaces the switch's entity of this key with this entity.
    pub fn modify(&self, p4info: &P4Info) -> Result<message::Update, EntryError> {
        self.update(p4info, update::Type::Modify)
    }

    /// Returns the update that deletes the switch's entity of this key.
    pub fn delete(&self, p4info: &P4Info) -> Result<message::Update, EntryError> {
        self.update(p4info, update::Type::Delete)
    }

    fn update(&self, p4info: &P4Info, kind: update::Type) -> Result<message::Update, EntryError> {
        Ok(message::Update { r#type: kind.into(), entity: Some(self.to_proto(p4info)?) })
    }
}

impl From<TableEntry> for Entity {
    fn from(entry: TableEntry) -> Self {
        Self::Table(entry)
    }
}

impl From<CounterCell> for Entity {
    fn from(cell: CounterCell) -> Self {
        Self::Counter(cell)
    }
}

impl From<MulticastGroup> for Entity {
    fn from(group: MulticastGroup) -> Self {
        Self::Multicast(group)
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(entry) => entry.fmt(f),
            Self::Counter(cell) => {
                write!(f, "{}[{}] {} packets, {} bytes", cell.counter, cell.index, cell.packets, cell.bytes)
            }
            Self::Multicast(group) => {
                let ports: Vec<_> = group.replicas.iter().map(|replica| replica.port.to_string()).collect();
                write!(f, "multicast group {} to ports {}", group.id, ports.join(", "))
            }
        }
    }
}

/// A query for a read. It covers one or many entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Every entry of every table, without default actions.
    AllTables,
    /// Every entry of the table with this name, without its default action.
    Table(String),
    /// The default action of every table.
    AllDefaults,
    /// The table entry with this key, or a default action.
    Entry(TableEntry),
    /// Every cell of every indexed counter.
    AllCounters,
    /// Every cell of the counter with this name.
    Counter(String),
    /// One cell of the counter with this name.
    CounterCell(String, u64),
    /// Every multicast group.
    AllGroups,
    /// The multicast group with this id.
    Group(u32),
}

impl Query {
    /// Converts the query to a message. An error names the part that does not fit the P4Info.
    pub fn to_proto(&self, p4info: &P4Info) -> Result<message::Entity, EntryError> {
        use entity::Entity::{CounterEntry as Counter, TableEntry as Table};
        let group =
            |multicast_group_id| message::MulticastGroupEntry { multicast_group_id, ..Default::default() };
        Ok(wrap(match self {
            Self::AllTables => Table(message::TableEntry::default()),
            Self::AllDefaults => Table(message::TableEntry { is_default_action: true, ..Default::default() }),
            Self::Table(name) => {
                let unknown = || EntryError::UnknownName { kind: "table", name: name.clone() };
                let table_id = p4info.table(name).ok_or_else(unknown)?.name.id;
                Table(message::TableEntry { table_id, ..Default::default() })
            }
            Self::Entry(entry) => Table(entry.place().to_proto(p4info)?),
            Self::AllCounters => Counter(message::CounterEntry::default()),
            Self::Counter(name) => {
                let counter_id = counter::find(p4info, name)?.name.id;
                Counter(message::CounterEntry { counter_id, ..Default::default() })
            }
            Self::CounterCell(name, index) => {
                let counter = counter::find(p4info, name)?;
                let index = Some(counter::check_index(counter, (*index).into())?);
                Counter(message::CounterEntry { counter_id: counter.name.id, index, data: None })
            }
            Self::AllGroups => group_entity(group(0)),
            Self::Group(id) => group_entity(MulticastGroup { id: *id, ..Default::default() }.to_proto()?),
        }))
    }
}

fn wrap(entity: entity::Entity) -> message::Entity {
    message::Entity { entity: Some(entity) }
}

fn group_entity(group: message::MulticastGroupEntry) -> entity::Entity {
    entity::Entity::PacketReplicationEngineEntry(message::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}

/// Returns the name of this kind of entity, as text for users.
pub fn kind(entity: Option<&entity::Entity>) -> &'static str {
    use entity::Entity as E;
    match entity {
        None => "an entity of no known kind",
        Some(E::ExternEntry(_)) => "an extern",
        Some(E::TableEntry(_)) => "a table entry",
        Some(E::ActionProfileMember(_)) => "an action profile member",
        Some(E::ActionProfileGroup(_)) => "an action profile group",
        Some(E::MeterEntry(_)) => "a meter",
        Some(E::DirectMeterEntry(_)) => "a direct meter",
        Some(E::CounterEntry(_)) => "a counter",
        Some(E::DirectCounterEntry(_)) => "a direct counter",
        Some(E::PacketReplicationEngineEntry(_)) => "a replication entry",
        Some(E::ValueSetEntry(_)) => "a parser value set",
        Some(E::RegisterEntry(_)) => "a register",
        Some(E::DigestEntry(_)) => "a digest",
    }
}
