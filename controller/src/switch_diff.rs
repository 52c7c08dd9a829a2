//! The changes that turn a switch's actual state into its desired state.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::discriminant;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry::{Entity, EntryError, MulticastGroup, Replica};
use tributary_p4runtime::p4::v1::Update;

use crate::switch_state::SwitchState;
use crate::tables::{self, Action, Key};

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
    // Both lists are in the order of the tables.
    let unwanted: Vec<_> = have.entries.keys().filter(|key| !want.entries.contains_key(key)).rev().collect();
    let wanted: Vec<_> =
        want.entries.iter().filter(|(key, action)| have.entries.get(key) != Some(action)).collect();
    let remove = |key: &&Key| {
        let entry = tables::to_entry(key, None);
        (!entry.default).then(|| Change { operation: Operation::Delete, entity: entry.into() })
    };
    let write = |(key, action): &(&Key, &Option<Action>)| {
        let entry = tables::to_entry(key, action.as_ref());
        let is_there = entry.default || have.entries.contains_key(key);
        let operation = if is_there { Operation::Modify } else { Operation::Insert };
        Change { operation, entity: entry.into() }
    };
    let in_one_table = |a: &Key, b: &Key| discriminant(a) == discriminant(b);
    let mut batches = vec![wanted_groups(have, want)];
    let removed = unwanted.chunk_by(|a, b| in_one_table(a, b));
    batches.extend(removed.map(|keys| keys.iter().filter_map(remove).collect()));
    let written = wanted.chunk_by(|(a, _), (b, _)| in_one_table(a, b));
    batches.extend(written.map(|entries| entries.iter().map(write).collect()));
    batches.push(unwanted_groups(have, want));
    batches.retain(|batch: &Vec<Change>| !batch.is_empty());
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use tributary_p4runtime::entry::TableEntry;
    use tributary_wire::{JobId, NodeId};

    use super::*;
    use crate::tables::admission;
    use crate::tables::identity::{self, SetIdentity};
    use crate::testing::entries;

    fn replicas() -> impl Strategy<Value = BTreeSet<Replica>> {
        btree_set((0u32..4, 0u32..2), 0..4)
            .prop_map(|set| set.into_iter().map(|(port, instance)| Replica { port, instance }).collect())
    }

    /// Returns any entry except the identity, with one of a few keys and actions.
    fn entry() -> impl Strategy<Value = (Key, Option<Action>)> {
        let all = |(key, parameter)| entries(key, parameter).entries.into_iter().collect::<Vec<_>>();
        (0u8..6, 1u8..4).prop_map(all).prop_flat_map(select)
    }

    fn state() -> impl Strategy<Value = SwitchState> {
        (btree_map(1u32..6, replicas(), 0..5), vec(entry(), 0..12))
            .prop_map(|(groups, entries)| SwitchState { groups, entries: entries.into_iter().collect() })
    }

    fn with_identity(state: impl Strategy<Value = SwitchState>) -> impl Strategy<Value = SwitchState> {
        (state, 1u16..4).prop_map(|(mut state, node)| {
            state.put(identity::Key {}, SetIdentity { node: NodeId::new(node) });
            state
        })
    }

    /// Returns a state that may have keys and an action that the controller never writes.
    fn read_state() -> impl Strategy<Value = SwitchState> {
        let foreign = |job: u16| TableEntry::new("admission").exact("job", 0u8).exact("ingress_port", job);
        (state(), vec(0u16..3, 0..3), any::<bool>()).prop_map(move |(mut state, foreign_ports, unknown)| {
            state.entries.extend(foreign_ports.into_iter().map(|port| tables::from_entry(&foreign(port))));
            if let Some(mut entry) = state.entries.first_entry().filter(|_| unknown) {
                entry.insert(None);
            }
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
            entity @ Entity::Table(TableEntry { default: true, .. }) => {
                state.put_read(entity);
                if change.operation == Operation::Modify { Ok(()) } else { Err("default action".into()) }
            }
            Entity::Table(entry) => put(&mut state.entries, change.operation, tables::from_entry(&entry)),
            Entity::Counter(_) => Err("a counter".into()),
        }
    }

    /// Returns the operation and table of each change, in the order of writing.
    fn order(batches: &[Vec<Change>]) -> Vec<(Operation, Option<String>)> {
        let table = |change: &Change| match &change.entity {
            Entity::Table(entry) => Some(entry.table.clone()),
            _ => None,
        };
        batches.iter().flatten().map(|change| (change.operation, table(change))).collect()
    }

    fn is_admission(table: &Option<String>) -> bool {
        table.as_deref() == Some("admission")
    }

    proptest! {
        #[test]
        fn the_changes_lead_to_what_is_wanted(
            have in prop_oneof![read_state().boxed(), with_identity(read_state()).boxed()],
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
        fn the_gate_closes_first_and_opens_last(have in read_state(), want in with_identity(state())) {
            let order = order(&diff(&have, &want));
            let at = |wanted: fn(&(Operation, Option<String>)) -> bool| {
                let positions = order.iter().enumerate().filter(move |(_, item)| wanted(item));
                positions.map(|(position, _)| position).collect::<Vec<_>>()
            };
            let closing = at(|(op, table)| *op == Operation::Delete && is_admission(table));
            let opening = at(|(op, table)| *op != Operation::Delete && is_admission(table));
            let groups_come = at(|(op, table)| *op != Operation::Delete && table.is_none());
            let groups_go = at(|(op, table)| *op == Operation::Delete && table.is_none());
            let other_entries = at(|(_, table)| table.is_some() && !is_admission(table));
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
        let key = admission::Key { job: JobId::new(7).unwrap(), ingress_port: 2 };
        let entity = tables::to_entry(&key.into(), None).into();
        let change = Change { operation: Operation::Delete, entity };
        assert_eq!(change.to_string(), "delete admission[ingress_port=2, job=7]");
    }
}
