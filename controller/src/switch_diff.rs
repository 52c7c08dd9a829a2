//! The changes that turn a switch's actual state into its desired state.

use std::collections::BTreeSet;
use std::fmt;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry::{ActionCall, Entity, EntryError, MulticastGroup, Replica, TableEntry};
use tributary_p4runtime::p4::v1::Update;

use crate::switch_state::SwitchState;
use crate::tables::Table;

/// The kinds of changes to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    Modify,
    Delete,
}

/// One change to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) operation: Operation,
    /// The entity as it should be after the change. For a deletion, only its key matters.
    pub(crate) entity: Entity,
}

impl Change {
    /// Converts the change to a P4Runtime update.
    pub(crate) fn to_update(&self, p4info: &P4Info) -> Result<Update, EntryError> {
        match self.operation {
            Operation::Insert => self.entity.insert(p4info),
            Operation::Modify => self.entity.modify(p4info),
            Operation::Delete => self.entity.delete(p4info),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.operation {
            Operation::Insert => "insert",
            Operation::Modify => "modify",
            Operation::Delete => "delete",
        };
        write!(f, "{verb} {}", self.entity)
    }
}

/// Returns the smallest set of changes that turns `have` into `want`, in batches to be written in
/// order.
///
/// A switch may carry out the updates of one batch in any order. The order of the batches is:
///
/// 1. Multicast groups that entries will use.
/// 2. Entries to remove, the entries of `admission` first. They are removed before new entries are added for two
///    reasons: a full table must not block a change, and a new job must not get slots that an old job can still reach.
/// 3. New entries, the entries of `admission` last, so that no packet is admitted while a job's tables are incomplete.
/// 4. Multicast groups that no entry uses any more.
///
/// Default actions are never inserted or deleted, only modified, because every table always has one.
pub(crate) fn diff(have: &SwitchState, want: &SwitchState) -> Vec<Vec<Change>> {
    let mut batches = vec![wanted_groups(have, want)];
    for table in Table::ALL.into_iter().rev() {
        batches.push(unwanted_entries(have, want, table));
    }
    for table in Table::ALL {
        batches.push(wanted_entries(have, want, table));
    }
    batches.push(unwanted_groups(have, want));
    batches.retain(|batch| !batch.is_empty());
    batches
}

fn wanted_groups(have: &SwitchState, want: &SwitchState) -> Vec<Change> {
    let change = |(&id, replicas): (&u32, &BTreeSet<Replica>)| {
        let operation = match have.groups.get(&id) {
            Some(same) if same == replicas => return None,
            Some(_) => Operation::Modify,
            None => Operation::Insert,
        };
        let group = MulticastGroup { id, replicas: replicas.clone() };
        Some(Change { operation, entity: group.into() })
    };
    want.groups.iter().filter_map(change).collect()
}

fn unwanted_groups(have: &SwitchState, want: &SwitchState) -> Vec<Change> {
    let change = |&id: &u32| {
        let group = MulticastGroup { id, ..MulticastGroup::default() };
        Change { operation: Operation::Delete, entity: group.into() }
    };
    have.groups.keys().filter(|id| !want.groups.contains_key(id)).map(change).collect()
}

fn unwanted_entries(have: &SwitchState, want: &SwitchState, table: Table) -> Vec<Change> {
    let places = have.entries.keys().filter(|place| Table::named(&place.table) == Some(table));
    let unwanted = places.filter(|place| !place.default && !want.entries.contains_key(place));
    let change = |place: &TableEntry| Change { operation: Operation::Delete, entity: place.clone().into() };
    unwanted.map(change).collect()
}

fn wanted_entries(have: &SwitchState, want: &SwitchState, table: Table) -> Vec<Change> {
    let change = |(place, action): (&TableEntry, &Option<ActionCall>)| {
        let operation = match have.entries.get(place) {
            Some(same) if same == action => return None,
            Some(_) => Operation::Modify,
            None if place.default => Operation::Modify,
            None => Operation::Insert,
        };
        let entry = TableEntry { action: action.clone(), ..place.clone() };
        Some(Change { operation, entity: entry.into() })
    };
    let entries = want.entries.iter().filter(|(place, _)| Table::named(&place.table) == Some(table));
    entries.filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, btree_set};
    use proptest::prelude::*;

    use super::*;

    fn replicas() -> impl Strategy<Value = BTreeSet<Replica>> {
        btree_set((0u32..4, 0u32..2), 0..4)
            .prop_map(|set| set.into_iter().map(|(port, instance)| Replica { port, instance }).collect())
    }

    fn place() -> impl Strategy<Value = TableEntry> {
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Identity);
        (proptest::sample::select(tables.collect::<Vec<_>>()), 0u8..6)
            .prop_map(|(table, value)| TableEntry::new(table.schema().name).exact("field", value))
    }

    fn action() -> impl Strategy<Value = Option<ActionCall>> {
        ("[ab]", 0u8..3).prop_map(|(name, value)| Some(ActionCall::new(&name).with("parameter", value)))
    }

    fn state() -> impl Strategy<Value = SwitchState> {
        let entries = btree_map(place(), action(), 0..12);
        (btree_map(1u32..6, replicas(), 0..5), entries)
            .prop_map(|(groups, entries)| SwitchState { groups, entries })
    }

    fn with_identity(state: impl Strategy<Value = SwitchState>) -> impl Strategy<Value = SwitchState> {
        (state, action()).prop_map(|(mut state, action)| {
            state.put(TableEntry { action, ..TableEntry::default_of("identity") });
            state
        })
    }

    /// Applies a change as a P4Runtime server does. Fails if an inserted entity exists, or a modified or
    /// deleted one does not.
    fn apply(state: &mut SwitchState, change: &Change) -> Result<(), String> {
        fn put<K: Ord, V>(
            map: &mut BTreeMap<K, V>,
            operation: Operation,
            (key, value): (K, V),
        ) -> Result<(), String> {
            let known = match operation {
                Operation::Delete => return map.remove(&key).map(drop).ok_or("not found".into()),
                Operation::Insert => false,
                Operation::Modify => true,
            };
            match map.insert(key, value).is_some() == known {
                true => Ok(()),
                false => Err("already there, or not found".into()),
            }
        }
        match change.entity.clone() {
            Entity::Multicast(group) => put(&mut state.groups, change.operation, (group.id, group.replicas)),
            // A default action always exists, so it can only be modified.
            Entity::Table(entry) if entry.default => {
                state.put(entry);
                if change.operation == Operation::Modify { Ok(()) } else { Err("default action".into()) }
            }
            Entity::Table(entry) => put(&mut state.entries, change.operation, (entry.place(), entry.action)),
            Entity::Counter(_) => Err("a counter".into()),
        }
    }

    /// Returns the operation and table of each change, in the order of writing.
    fn order(batches: &[Vec<Change>]) -> Vec<(Operation, Option<Table>)> {
        let table = |change: &Change| match &change.entity {
            Entity::Table(entry) => Table::named(&entry.table),
            _ => None,
        };
        batches.iter().flatten().map(|change| (change.operation, table(change))).collect()
    }

    proptest! {
        #[test]
        fn the_changes_lead_to_what_is_wanted(
            have in prop_oneof![state().boxed(), with_identity(state()).boxed()],
            want in with_identity(state()),
        ) {
            let mut now = have.clone();
            let batches = diff(&have, &want);
            for change in batches.iter().flatten() {
                prop_assert_eq!(apply(&mut now, change), Ok(()), "{}", change);
            }
            prop_assert_eq!(&now, &want);
            prop_assert_eq!(diff(&want, &want), Vec::<Vec<Change>>::new());
            prop_assert!(batches.iter().flatten().count() <= have.entries.len() + have.groups.len()
                + want.entries.len() + want.groups.len());
        }

        #[test]
        fn the_gate_closes_first_and_opens_last(have in state(), want in with_identity(state())) {
            let order = order(&diff(&have, &want));
            let at = |wanted: fn(&(Operation, Option<Table>)) -> bool| {
                let positions = order.iter().enumerate().filter(move |(_, item)| wanted(item));
                positions.map(|(position, _)| position).collect::<Vec<_>>()
            };
            let closing = at(|(op, table)| *op == Operation::Delete && *table == Some(Table::Admission));
            let opening = at(|(op, table)| *op != Operation::Delete && *table == Some(Table::Admission));
            let groups_come = at(|(op, table)| *op != Operation::Delete && table.is_none());
            let groups_go = at(|(op, table)| *op == Operation::Delete && table.is_none());
            let other_entries = at(|(_, table)| table.is_some() && *table != Some(Table::Admission));
            let before = |first: &[usize], second: &[usize]| {
                first.iter().all(|a| second.iter().all(|b| a < b))
            };
            prop_assert!(before(&closing, &other_entries));
            prop_assert!(before(&other_entries, &opening));
            prop_assert!(before(&groups_come, &other_entries) && before(&groups_come, &closing));
            prop_assert!(before(&other_entries, &groups_go) && before(&opening, &groups_go));
        }
    }

    #[test]
    fn a_change_says_what_it_is_about() {
        let entry = TableEntry::new("admission").exact("job", 7u8).exact("ingress_port", 2u8);
        let change = Change { operation: Operation::Delete, entity: entry.into() };
        assert_eq!(change.to_string(), "delete admission[ingress_port=2, job=7]");
    }
}
