//! Patterns of a Read: they are looked up on the switch's thread, and turned into messages off it.

use std::sync::Arc;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::p4::config::v1::p4_ids::Prefix;
use tributary_p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{self as message, Entity};
use tributary_p4runtime::p4info::Table;

use super::status::Refusal;
use super::{convert, meters, notices, profiles, registers, replication, value_sets};
use crate::control::{
    CloneSession, CounterValue, DefaultEntry, DigestConfig, DirectResources, EntryAction, EntryKey,
    FieldMatch, MeterColours, MeterConfig, MulticastGroup, ProfileGroup, ProfileMember, TableEntry,
};
use crate::error::ControlError;
use crate::switch::Switch;

/// One pattern, ready to be looked up.
#[derive(Debug, Clone)]
pub(super) enum Query {
    /// Entries of a table that pass the filter.
    Entries { table: u32, filter: Arc<Filter>, show: Show },
    /// One entry, if it exists.
    Entry { key: EntryKey, show: Show },
    /// The default action of a table.
    Default { table: u32, show: Show },
    /// Cells of a counter; all, or the one with this index.
    Counter { counter: u32, index: Option<i64> },
    /// Cells of a meter array; all, or the one with this index.
    Meter { meter: u32, index: Option<i64>, colours: bool },
    /// Cells of a register array; whether one is asked for, which has to be there.
    Register { register: u32, first: u64, count: usize, one: bool },
    /// The members of a value set.
    ValueSet { value_set: u32 },
    /// The controller's configuration of a digest, if the digest is on.
    Digest { digest: u32 },
    /// Members of an action profile; all, or the one with this id.
    Members { profile: u32, id: Option<u32> },
    /// Groups of a selector; all, or the one with this id.
    ProfileGroups { profile: u32, id: Option<u32> },
    /// Multicast groups; all, or the one with this id.
    Groups(Option<u16>),
    /// Clone sessions; all, or the one with this id.
    Sessions(Option<u16>),
}

/// Which entries a wildcard read leaves out.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    priority: i32,
    action: Option<EntryAction>,
    controller_metadata: u64,
    metadata: Vec<u8>,
}

/// Form in which an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// The entry, and of its resources those that the reader names.
    Entry {
        counter: bool,
        meter: bool,
        colours: bool,
        last_hit: bool,
    },
    DirectCounter,
    /// The meter, and on request the packets that it has marked.
    DirectMeter {
        colours: bool,
    },
}

/// Result of a query.
#[derive(Debug)]
pub(super) enum QueryResult {
    Entries(Vec<(TableEntry, DirectResources)>, Show),
    Default(u32, DefaultEntry, Show),
    Cells { counter_id: u32, first: i64, cells: Vec<CounterValue> },
    Meters { meter_id: u32, first: i64, cells: Vec<(Option<MeterConfig>, MeterColours)>, colours: bool },
    Registers { register_id: u32, first: u64, cells: Vec<Vec<u8>> },
    Digest(u32, DigestConfig),
    ValueSet(u32, Vec<Vec<FieldMatch>>),
    Members(Vec<ProfileMember>),
    ProfileGroups(Vec<ProfileGroup>),
    Groups(Vec<MulticastGroup>),
    Sessions(Vec<CloneSession>),
}

impl Query {
    /// Plans the queries for a pattern; each of them is looked up by itself.
    pub(super) fn plan(pattern: Entity, p4info: &P4Info) -> Result<Vec<Self>, Refusal> {
        match pattern.entity {
            Some(Kind::TableEntry(entry)) => {
                let show = Show::Entry {
                    counter: entry.counter_data.is_some(),
                    meter: entry.meter_config.is_some(),
                    colours: entry.meter_counter_data.is_some(),
                    last_hit: entry.time_since_last_hit.is_some(),
                };
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
            Some(Kind::MeterEntry(entry)) => meters::query(&entry, p4info),
            Some(Kind::DirectMeterEntry(entry)) => meters::query_direct(entry, p4info),
            Some(Kind::RegisterEntry(entry)) => registers::query(&entry, p4info),
            Some(Kind::ValueSetEntry(entry)) => Ok(value_sets::query(&entry, p4info)),
            Some(Kind::DigestEntry(entry)) => Ok(notices::query(&entry, p4info)),
            Some(Kind::ActionProfileMember(entry)) => Ok(profiles::query_members(&entry, p4info)),
            Some(Kind::ActionProfileGroup(entry)) => Ok(profiles::query_groups(&entry, p4info)),
            Some(Kind::PacketReplicationEngineEntry(entry)) => replication::query(&entry),
            // There are none.
            Some(Kind::ExternEntry(entry)) if entry.extern_type_id == 0 => Ok(Vec::new()),
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
                // Counters and meters belong to an entry, which has to be there.
                Err(ControlError::NotFound(_)) if matches!(show, Show::Entry { .. }) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Default { table, .. } if switch.pipeline.directory.absent_tables.contains(table) => {
                Ok(None)
            }
            Self::Default { table, show } => {
                Ok(Some(QueryResult::Default(*table, switch.default_entry(*table)?, *show)))
            }
            Self::Counter { counter, index } => gather_cells(switch, *counter, *index).map(Some),
            Self::Meter { meter, index, colours } => {
                let cells = switch.meters(*meter)?;
                let (first, cells) = one_or_all(cells, *index, || format!("the meter {meter:#010x}"))?;
                Ok(Some(QueryResult::Meters { meter_id: *meter, first, cells, colours: *colours }))
            }
            Self::Register { register, first, count, one } => {
                let cells = switch.registers(*register, *first, *count)?;
                if *one && cells.is_empty() {
                    let what = format!("the register {register:#010x}");
                    let size = self.register_size(switch);
                    return Err(ControlError::OutOfRange { what, index: first.cast_signed(), size });
                }
                Ok(Some(QueryResult::Registers { register_id: *register, first: *first, cells }))
            }
            Self::ValueSet { value_set } => {
                Ok(Some(QueryResult::ValueSet(*value_set, switch.value_set(*value_set)?)))
            }
            Self::Digest { digest } => {
                let config = switch.digest(*digest)?;
                Ok(config.map(|config| QueryResult::Digest(*digest, config)))
            }
            Self::Members { profile, id } => {
                let members = picked(switch.members(*profile)?, *id, |member| member.member_id, "member")?;
                Ok(Some(QueryResult::Members(members)))
            }
            Self::ProfileGroups { profile, id } => {
                let groups = picked(switch.profile_groups(*profile)?, *id, |group| group.group_id, "group")?;
                Ok(Some(QueryResult::ProfileGroups(groups)))
            }
            Self::Groups(id) => {
                let groups = picked(switch.groups(), *id, |group| group.id, "multicast group")?;
                Ok(Some(QueryResult::Groups(groups)))
            }
            Self::Sessions(id) => {
                let sessions = picked(switch.sessions(), *id, |session| session.id, "clone session")?;
                Ok(Some(QueryResult::Sessions(sessions)))
            }
        }
    }
}

impl Query {
    fn register_size(&self, switch: &Switch) -> usize {
        let Self::Register { register, .. } = self else { return 0 };
        let known = switch.pipeline().info().registers().find(|one| one.name.id == *register);
        known.map_or(0, |register| usize::try_from(register.size).unwrap_or(usize::MAX))
    }
}

impl Filter {
    fn passes(&self, entry: &TableEntry) -> bool {
        let (controller_metadata, metadata) = convert::read_note(&entry.metadata);
        (self.priority == 0 || self.priority == entry.key.priority)
            && self.action.as_ref().is_none_or(|action| acts_alike(action, &entry.action))
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
                .map(|(entry, resources)| shown(convert::entry_message(entry), resources, show))
                .collect(),
            Self::Default(table_id, default, show) => {
                let (controller_metadata, metadata) = convert::read_note(&default.metadata);
                let entry = message::TableEntry {
                    table_id,
                    is_default_action: true,
                    action: default.action.map(|call| convert::action_message(call.into())),
                    controller_metadata,
                    metadata: metadata.to_vec(),
                    ..Default::default()
                };
                vec![shown(entry, default.resources, show)]
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
            Self::Meters { meter_id, first, cells, colours } => {
                let entity = |(index, (config, marked))| {
                    meters::entity(meter_id, index, config, colours.then_some(marked))
                };
                (first..).zip(cells).map(entity).collect()
            }
            Self::Registers { register_id, first, cells } => {
                let cells = (first..).zip(cells);
                cells.map(|(index, value)| registers::entity(register_id, index, value)).collect()
            }
            Self::ValueSet(id, members) => vec![value_sets::entity(id, members)],
            Self::Digest(digest, config) => vec![notices::entity(digest, config)],
            Self::Members(members) => members.into_iter().map(profiles::member_entity).collect(),
            Self::ProfileGroups(groups) => groups.iter().map(profiles::group_entity).collect(),
            Self::Groups(groups) => groups.iter().map(replication::group_entity).collect(),
            Self::Sessions(sessions) => sessions.iter().map(replication::session_entity).collect(),
        }
    }
}

/// Plans a read of a table's entries, or of their counters or meters.
pub(super) fn tables(entry: message::TableEntry, show: Show, p4info: &P4Info) -> Result<Vec<Query>, Refusal> {
    let timed = |table: &&Table| has_timeouts(table, p4info);
    if entry.time_since_last_hit.is_some() {
        let table = p4info.table_by_id(entry.table_id);
        if entry.is_default_action || table.is_some_and(|table| !timed(&table)) {
            return Err(Refusal::invalid("there is no idle timeout: leave time_since_last_hit out"));
        }
    }
    let (counted, resource) = match show {
        Show::Entry { .. } => (None, ""),
        Show::DirectCounter => (Some(Prefix::DirectCounter), "counter"),
        Show::DirectMeter { .. } => (Some(Prefix::DirectMeter), "meter"),
    };
    let counted = |table: &&Table| {
        counted.is_none_or(|kind| table.direct_resources.iter().any(|id| id >> 24 == kind as u32))
    };
    let tables: Vec<u32> = match entry.table_id {
        0 => p4info.tables().filter(counted).map(|table| table.name.id).collect(),
        id => match p4info.table_by_id(id) {
            Some(table) if !counted(&table) => {
                return Err(Refusal::invalid(format!(
                    "the table {} has no direct {resource}",
                    table.name.alias
                )));
            }
            _ => vec![id],
        },
    };
    if entry.is_default_action {
        convert::check_default_key(&entry)?;
        return Ok(tables.into_iter().map(|table| Query::Default { table, show }).collect());
    }
    if entry.r#match.is_empty() {
        let filter = Arc::new(Filter {
            priority: entry.priority,
            controller_metadata: entry.controller_metadata,
            metadata: entry.metadata,
            action: convert::action(entry.action)?,
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

/// All of them, or the one with this id, which has to be there.
fn picked<T, Id: Copy + Eq + std::fmt::Display>(
    mut all: Vec<T>,
    id: Option<Id>,
    id_of: impl Fn(&T) -> Id,
    what: &str,
) -> Result<Vec<T>, ControlError> {
    let Some(id) = id else { return Ok(all) };
    all.retain(|one| id_of(one) == id);
    if all.is_empty() { Err(ControlError::NotFound(format!("{what} {id}"))) } else { Ok(all) }
}

fn gather_cells(switch: &Switch, counter_id: u32, index: Option<i64>) -> Result<QueryResult, ControlError> {
    let cells = switch.counters(counter_id)?.to_vec();
    let (first, cells) = one_or_all(cells, index, || format!("the counter {counter_id:#010x}"))?;
    Ok(QueryResult::Cells { counter_id, first, cells })
}

/// All cells, or the one with this index, and the index of the first.
fn one_or_all<T: Clone>(
    cells: Vec<T>,
    index: Option<i64>,
    what: impl FnOnce() -> String,
) -> Result<(i64, Vec<T>), ControlError> {
    let Some(index) = index else { return Ok((0, cells)) };
    match usize::try_from(index).ok().and_then(|index| cells.get(index)) {
        Some(cell) => Ok((index, vec![cell.clone()])),
        None => Err(ControlError::OutOfRange { what: what(), index, size: cells.len() }),
    }
}

/// Returns true if a table's entries can time out.
fn has_timeouts(table: &Table, p4info: &P4Info) -> bool {
    p4info.message().tables.iter().any(|message| {
        message.preamble.as_ref().is_some_and(|preamble| preamble.id == table.name.id)
            && message.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl
    })
}

/// Returns true if an entry runs the requested action, or refers to the same member or group.
fn acts_alike(wanted: &EntryAction, action: &EntryAction) -> bool {
    match (wanted, action) {
        (EntryAction::Call(wanted), EntryAction::Call(call)) => wanted.action_id == call.action_id,
        (EntryAction::OneShot(_), EntryAction::OneShot(_)) => true,
        _ => wanted == action,
    }
}

fn shown(mut entry: message::TableEntry, resources: DirectResources, show: Show) -> Entity {
    entry.is_const |= resources.constant;
    let data = resources.counter.map(convert::counter_data);
    let config = resources.meter.map(meters::config_message);
    let marked = resources.colours.map(meters::colours_message);
    wrap(match show {
        Show::Entry { counter, meter, colours, last_hit } => {
            entry.counter_data = data.filter(|_| counter);
            entry.meter_config = config.filter(|_| meter);
            entry.meter_counter_data = marked.filter(|_| colours);
            let elapsed =
                |elapsed| message::table_entry::IdleTimeout { elapsed_ns: convert::nanoseconds(elapsed) };
            entry.time_since_last_hit = resources.since_last_hit.filter(|_| last_hit).map(elapsed);
            Kind::TableEntry(entry)
        }
        // The entry is only named here: counters and meters do not show its action.
        Show::DirectCounter => {
            (entry.action, entry.idle_timeout_ns) = (None, 0);
            Kind::DirectCounterEntry(message::DirectCounterEntry { table_entry: Some(entry), data })
        }
        Show::DirectMeter { colours } => {
            (entry.action, entry.idle_timeout_ns) = (None, 0);
            let (table_entry, counter_data) = (Some(entry), marked.filter(|_| colours));
            Kind::DirectMeterEntry(message::DirectMeterEntry { table_entry, config, counter_data })
        }
    })
}

fn wrap(entity: Kind) -> Entity {
    Entity { entity: Some(entity) }
}
