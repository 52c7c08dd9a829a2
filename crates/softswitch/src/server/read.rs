//! Patterns of a Read, from messages to queries, and the results of queries as messages.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::p4::v1::Entity;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;

use super::entities::{counters, digests, meters, profiles, registers, replication, tables, value_sets};
use super::query::{Query, QueryResult};
use super::status::Refusal;

impl Query {
    /// Plans the queries for a pattern. Each query is looked up separately.
    pub(super) fn plan(pattern: Entity, p4info: &P4Info) -> Result<Vec<Self>, Refusal> {
        match pattern.entity {
            Some(Kind::TableEntry(entry)) => tables::query_entries(entry, p4info),
            Some(Kind::DirectCounterEntry(entry)) => counters::query_direct(entry, p4info),
            Some(Kind::CounterEntry(entry)) => counters::query(&entry, p4info),
            Some(Kind::MeterEntry(entry)) => meters::query(&entry, p4info),
            Some(Kind::DirectMeterEntry(entry)) => meters::query_direct(entry, p4info),
            Some(Kind::RegisterEntry(entry)) => registers::query(&entry, p4info),
            Some(Kind::ValueSetEntry(entry)) => Ok(value_sets::query(&entry, p4info)),
            Some(Kind::DigestEntry(entry)) => Ok(digests::query(&entry, p4info)),
            Some(Kind::ActionProfileMember(entry)) => Ok(profiles::query_members(&entry, p4info)),
            Some(Kind::ActionProfileGroup(entry)) => Ok(profiles::query_groups(&entry, p4info)),
            Some(Kind::PacketReplicationEngineEntry(entry)) => replication::query(&entry),
            // The switch has no such externs.
            Some(Kind::ExternEntry(entry)) if entry.extern_type_id == 0 => Ok(Vec::new()),
            None => {
                Err(Refusal::invalid("the pattern has no entity, or one of a kind that is not known here"))
            }
            Some(other) => Err(Refusal::unimplemented(entry::kind(Some(&other)))),
        }
    }
}

impl QueryResult {
    /// Returns the found entities as messages.
    pub(super) fn into_entities(self) -> Vec<Entity> {
        match self {
            Self::Entries(entries, show) => {
                entries.into_iter().map(|(entry, resources)| tables::entity(entry, resources, show)).collect()
            }
            Self::Default(table_id, default, show) => {
                vec![tables::default_entity(table_id, default, show)]
            }
            Self::Cells { counter_id, first, cells } => {
                let cells = (first..).zip(cells);
                cells.map(|(index, value)| counters::entity(counter_id, index, value)).collect()
            }
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
