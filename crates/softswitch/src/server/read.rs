//! Patterns of a Read, from messages to queries, and the results of queries as messages.

use std::sync::Arc;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::p4::config::v1::p4_ids::Prefix;
use tributary_p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{self as message, Entity};
use tributary_p4runtime::p4info::Table;

use super::convert;
use super::entities::{digests, meters, profiles, registers, replication, value_sets};
use super::query::{Filter, Query, QueryResult, Show};
use super::status::Refusal;
use crate::control::DirectResources;

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
            Some(Kind::DigestEntry(entry)) => Ok(digests::query(&entry, p4info)),
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
            Self::Digest(digest, config) => vec![digests::entity(digest, config)],
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

/// Whether a table's entries can time out.
fn has_timeouts(table: &Table, p4info: &P4Info) -> bool {
    p4info.message().tables.iter().any(|message| {
        message.preamble.as_ref().is_some_and(|preamble| preamble.id == table.name.id)
            && message.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl
    })
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
