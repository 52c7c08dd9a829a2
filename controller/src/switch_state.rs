//! The state of a switch, in the names of the P4 program.

use std::collections::{BTreeMap, BTreeSet};

use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, Query, Replica, TableEntry};

use crate::tables::Table;

/// The part of a switch's state that the controller manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SwitchState {
    /// The replicas of each multicast group, by group id.
    pub(crate) groups: BTreeMap<u32, BTreeSet<Replica>>,
    /// The action of each table entry, by the entry's key. Default actions are included.
    pub(crate) entries: BTreeMap<TableEntry, Option<ActionCall>>,
}

impl SwitchState {
    /// Adds an entry. It replaces an entry with the same key.
    pub(crate) fn put(&mut self, entry: TableEntry) {
        self.entries.insert(entry.place(), entry.action);
    }

    /// Adds a group that sends one copy to each of `ports`.
    pub(crate) fn put_group(&mut self, group: u16, ports: impl IntoIterator<Item = u16>) {
        let group = MulticastGroup::to_ports(group.into(), ports.into_iter().map(u32::from));
        self.groups.insert(group.id, group.replicas);
    }

    /// Adds an entity that was read from a switch.
    pub(crate) fn put_read(&mut self, entity: Entity) {
        match entity {
            Entity::Table(entry) => self.put(entry),
            Entity::Multicast(group) => {
                self.groups.insert(group.id, group.replicas);
            }
            Entity::Counter(_) => {}
        }
    }

    /// Returns the queries that read the complete state of a switch.
    pub(crate) fn queries() -> Vec<Query> {
        let table = |table: Table| {
            let schema = table.schema();
            if schema.key.is_empty() {
                Query::Entry(TableEntry::default_of(schema.name))
            } else {
                Query::Table(schema.name.to_owned())
            }
        };
        Table::ALL.into_iter().map(table).chain([Query::AllGroups]).collect()
    }
}
