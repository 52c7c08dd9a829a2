//! Patterns of a Read: they are looked up on the switch's thread, and turned into messages off it.

use std::sync::Arc;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry::{self, LAST_GROUP};
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::{self as message, Entity};

use super::convert;
use super::status::Refusal;
use crate::control::{ActionCall, CounterValue, EntryKey, MulticastGroup, TableEntry};
use crate::error::ControlError;
use crate::switch::Switch;

/// One pattern, ready to be looked up.
#[derive(Debug, Clone)]
pub(super) enum Query {
    /// Entries of a table that pass the filter.
    Entries { table: u32, filter: Arc<Filter>, show: Show },
    /// One entry, if it is there.
    Entry { key: EntryKey, show: Show },
    /// The default action of a table.
    Default { table: u32, show: Show },
    /// Cells of a counter; all, or the one with this index.
    Counter { counter: u32, index: Option<i64> },
    /// Multicast groups; all, or the one with this id.
    Groups(Option<u16>),
}

/// Which entries a wildcard read leaves out.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    priority: i32,
    action_id: Option<u32>,
    controller_metadata: u64,
    metadata: Vec<u8>,
}

/// How an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Entry,
    EntryWithCounter,
    DirectCounter,
}

/// What a query found.
#[derive(Debug)]
pub(super) enum QueryResult {
    Entries(Vec<(TableEntry, Option<CounterValue>)>, Show),
    Default(u32, Option<ActionCall>, Option<CounterValue>, Show),
    Cells { counter_id: u32, first: i64, cells: Vec<CounterValue> },
    Groups(Vec<MulticastGroup>),
}

impl Query {
    /// Plans the queries for a pattern; each of them is looked up by itself.
    pub(super) fn plan(pattern: Entity, p4info: &P4Info) -> Result<Vec<Self>, Refusal> {
        match pattern.entity {
            Some(Kind::TableEntry(entry)) => {
                let show = if entry.counter_data.is_some() { Show::EntryWithCounter } else { Show::Entry };
                tables(entry, show, p4info)
            }
            Some(Kind::DirectCounterEntry(entry)) => {
                let missing = || Refusal::invalid("the direct counter names no table entry");
                tables(entry.table_entry.ok_or_else(missing)?, Show::DirectCounter, p4info)
            }
            Some(Kind::CounterEntry(entry)) => {
                let all = || p4info.counters().map(|counter| counter.name.id).collect();
                let counters: Vec<u32> = if entry.counter_id == 0 { all() } else { vec![entry.counter_id] };
                let index = convert::index(entry.index.as_ref())?;
                Ok(counters.into_iter().map(|counter| Self::Counter { counter, index }).collect())
            }
            Some(Kind::PacketReplicationEngineEntry(entry)) => match entry.r#type {
                Some(Replication::MulticastGroupEntry(group)) => groups(group.multicast_group_id),
                Some(Replication::CloneSessionEntry(_)) => Err(Refusal::unimplemented("a clone session")),
                None => {
                    Err(Refusal::invalid("the replication entry is neither a multicast group nor a session"))
                }
            },
            None => {
                Err(Refusal::invalid("the pattern has no entity, or one of a kind that is not known here"))
            }
            Some(other) => Err(Refusal::unimplemented(entry::kind(Some(&other)))),
        }
    }

    /// Looks up what the query covers.
    pub(super) fn gather(&self, switch: &Switch) -> Result<Option<QueryResult>, ControlError> {
        match self {
            Self::Entries { table, filter, show } => {
                let mut entries = switch.entries(*table)?;
                entries.retain(|(entry, _)| filter.passes(entry));
                Ok(Some(QueryResult::Entries(entries, *show)))
            }
            Self::Entry { key, show } => match switch.entry(key) {
                Ok(entry) => Ok(Some(QueryResult::Entries(vec![entry], *show))),
                Err(ControlError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Default { table, show } => {
                let (action, count) = switch.default_action(*table)?;
                Ok(Some(QueryResult::Default(*table, action, count, *show)))
            }
            Self::Counter { counter, index } => gather_cells(switch, *counter, *index).map(Some),
            Self::Groups(id) => {
                let mut groups = switch.groups();
                groups.retain(|group| id.is_none_or(|id| id == group.id));
                match id {
                    Some(id) if groups.is_empty() => {
                        Err(ControlError::NotFound(format!("multicast group {id}")))
                    }
                    _ => Ok(Some(QueryResult::Groups(groups))),
                }
            }
        }
    }
}

impl Filter {
    fn passes(&self, entry: &TableEntry) -> bool {
        let (controller_metadata, metadata) = convert::read_note(&entry.metadata);
        (self.priority == 0 || self.priority == entry.key.priority)
            && self.action_id.is_none_or(|id| id == entry.action.action_id)
            && (self.controller_metadata == 0 || self.controller_metadata == controller_metadata)
            && (self.metadata.is_empty() || self.metadata == metadata)
    }
}

impl QueryResult {
    /// The found entities as messages.
    pub(super) fn into_entities(self) -> Vec<Entity> {
        match self {
            Self::Entries(entries, show) => entries
                .into_iter()
                .map(|(entry, count)| shown(convert::entry_message(entry), count, show))
                .collect(),
            Self::Default(table_id, action, count, show) => {
                let entry = message::TableEntry {
                    table_id,
                    is_default_action: true,
                    action: action.map(convert::action_message),
                    ..Default::default()
                };
                vec![shown(entry, count, show)]
            }
            Self::Cells { counter_id, first, cells } => (first..)
                .zip(cells)
                .map(|(index, value)| message::CounterEntry {
                    counter_id,
                    index: Some(message::Index { index }),
                    data: Some(convert::counter_data(value)),
                })
                .map(|entry| wrap(Kind::CounterEntry(entry)))
                .collect(),
            Self::Groups(groups) => groups
                .iter()
                .map(|group| Replication::MulticastGroupEntry(convert::group_message(group)))
                .map(|group| message::PacketReplicationEngineEntry { r#type: Some(group) })
                .map(|entry| wrap(Kind::PacketReplicationEngineEntry(entry)))
                .collect(),
        }
    }
}

fn tables(entry: message::TableEntry, show: Show, p4info: &P4Info) -> Result<Vec<Query>, Refusal> {
    if entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid("no table has an idle timeout: leave time_since_last_hit out"));
    }
    let counted = |table: &&tributary_p4runtime::p4info::Table| {
        show != Show::DirectCounter || convert::direct_counter(table).is_some()
    };
    let tables: Vec<u32> = match entry.table_id {
        0 => p4info.tables().filter(counted).map(|table| table.name.id).collect(),
        id => match p4info.table_by_id(id) {
            Some(table) if !counted(&table) => {
                return Err(Refusal::invalid(format!(
                    "the table {} has no direct counter",
                    table.name.alias
                )));
            }
            _ => vec![id],
        },
    };
    if entry.is_default_action {
        return Ok(tables.into_iter().map(|table| Query::Default { table, show }).collect());
    }
    if entry.r#match.is_empty() {
        let filter = Arc::new(Filter {
            priority: entry.priority,
            controller_metadata: entry.controller_metadata,
            metadata: entry.metadata,
            action_id: convert::action(entry.action)?.map(|action| action.action_id),
        });
        let of_table = |table| Query::Entries { table, filter: Arc::clone(&filter), show };
        return Ok(tables.into_iter().map(of_table).collect());
    }
    if entry.table_id == 0 {
        return Err(Refusal::invalid(
            "match fields say nothing without a table: give a table id, or no fields",
        ));
    }
    Ok(vec![Query::Entry { key: convert::key(entry.table_id, entry.r#match, entry.priority)?, show }])
}

fn groups(id: u32) -> Result<Vec<Query>, Refusal> {
    match u16::try_from(id) {
        Ok(0) => Ok(vec![Query::Groups(None)]),
        Ok(small) if id <= LAST_GROUP => Ok(vec![Query::Groups(Some(small))]),
        _ => Err(Refusal::new(
            Code::OutOfRange,
            format!("multicast group ids end at {LAST_GROUP}, not at {id}"),
        )),
    }
}

fn gather_cells(switch: &Switch, counter_id: u32, index: Option<i64>) -> Result<QueryResult, ControlError> {
    let cells = switch.counters(counter_id)?;
    let Some(index) = index else {
        return Ok(QueryResult::Cells { counter_id, first: 0, cells: cells.to_vec() });
    };
    match usize::try_from(index).ok().and_then(|index| cells.get(index)) {
        Some(cell) => Ok(QueryResult::Cells { counter_id, first: index, cells: vec![*cell] }),
        None => Err(ControlError::OutOfRange {
            what: format!("the counter {counter_id:#010x}"),
            index,
            size: cells.len(),
        }),
    }
}

fn shown(mut entry: message::TableEntry, count: Option<CounterValue>, show: Show) -> Entity {
    let data = count.map(convert::counter_data);
    wrap(match show {
        Show::Entry => Kind::TableEntry(entry),
        Show::EntryWithCounter => {
            entry.counter_data = data;
            Kind::TableEntry(entry)
        }
        Show::DirectCounter => {
            // The entry is only named here: a counter does not tell what the entry does.
            entry.action = None;
            Kind::DirectCounterEntry(message::DirectCounterEntry { table_entry: Some(entry), data })
        }
    })
}

fn wrap(entity: Kind) -> Entity {
    Entity { entity: Some(entity) }
}
