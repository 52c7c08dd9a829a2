//! The state of a switch: its table entries and its multicast groups.

use std::collections::{BTreeMap, BTreeSet};

use tributary_p4runtime::entry::{Entity, MulticastGroup, Query, Replica, TableEntry};

use crate::tables::{self, Action, Key, TableKey, TableSchema};

/// The part of a switch's state that the controller manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SwitchState {
    /// The replicas of each multicast group, by group id.
    pub(crate) groups: BTreeMap<u32, BTreeSet<Replica>>,
    /// The action of each table entry, by the entry's key. Default actions are included.
    /// `None` stands for an action that the controller never writes.
    pub(crate) entries: BTreeMap<Key, Option<Action>>,
}

impl SwitchState {
    /// Adds an entry. It replaces an entry with the same key.
    pub(crate) fn put<K: TableKey + Into<Key>>(&mut self, key: K, action: impl Into<K::Action>)
    where
        K::Action: Into<Action>,
    {
        let action: K::Action = action.into();
        self.entries.insert(key.into(), Some(action.into()));
    }

    /// Adds a group that sends one copy to each of `ports`.
    pub(crate) fn put_group(&mut self, group: u16, ports: impl IntoIterator<Item = u16>) {
        let group = MulticastGroup::to_ports(group.into(), ports.into_iter().map(u32::from));
        self.groups.insert(group.id, group.replicas);
    }

    /// Adds an entity that was read from a switch.
    pub(crate) fn put_read(&mut self, entity: Entity) {
        match entity {
            Entity::Table(entry) => {
                let (key, action) = tables::from_entry(&entry);
                self.entries.insert(key, action);
            }
            Entity::Multicast(group) => {
                self.groups.insert(group.id, group.replicas);
            }
            Entity::Counter(_) => {}
        }
    }

    /// Returns the queries that read the complete state of a switch.
    pub(crate) fn queries() -> Vec<Query> {
        let table = |table: &TableSchema| match table.key {
            [] => Query::Entry(TableEntry::default_of(table.name)),
            _ => Query::Table(table.name.to_owned()),
        };
        tables::SCHEMAS.iter().map(table).chain([Query::AllGroups]).collect()
    }
}
