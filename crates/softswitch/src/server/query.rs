//! Queries of the switch's state, looked up on the switch's thread.

use std::sync::Arc;

use super::convert;
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
    /// The cells of a counter: all cells, or the cell with this index.
    Counter { counter: u32, index: Option<i64> },
    /// The cells of a meter array: all cells, or the cell with this index.
    Meter { meter: u32, index: Option<i64>, colours: bool },
    /// Cells of a register array. `one` is true if the read names a single cell, which must exist.
    Register { register: u32, first: u64, count: usize, one: bool },
    /// The members of a value set.
    ValueSet { value_set: u32 },
    /// The controller's configuration of a digest, if the digest is on.
    Digest { digest: u32 },
    /// The members of an action profile: all members, or the member with this id.
    Members { profile: u32, id: Option<u32> },
    /// The groups of a selector: all groups, or the group with this id.
    ProfileGroups { profile: u32, id: Option<u32> },
    /// All multicast groups, or the group with this id.
    Groups(Option<u16>),
    /// All clone sessions, or the session with this id.
    Sessions(Option<u16>),
}

/// The conditions that the entries of a wildcard read must meet.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) priority: i32,
    pub(super) action: Option<EntryAction>,
    pub(super) controller_metadata: u64,
    pub(super) metadata: Vec<u8>,
}

/// The form in which an entry is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    /// The entry, with the resources (counter, meter and so on) that the reader names.
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
    /// Looks up the entities that the query covers.
    pub(super) fn gather(&self, switch: &Switch) -> Result<Option<QueryResult>, ControlError> {
        match self {
            Self::Entries { table, filter, show } => {
                let mut entries = switch.entries(*table)?;
                entries.retain(|(entry, _)| filter.passes(entry));
                Ok(Some(QueryResult::Entries(entries, *show)))
            }
            Self::Entry { key, show } => match switch.entry(key) {
                Ok(entry) => Ok(Some(QueryResult::Entries(vec![entry], *show))),
                // The entry of a counter or meter must exist, but a read of an entry that does not
                // exist is empty.
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

/// Returns all elements, or only the element with this id. An unknown id is an error.
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

/// Returns all cells, or only the cell with this index; also returns the index of the first cell.
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

/// Returns true if an entry runs the requested action, or refers to the same member or group.
fn acts_alike(wanted: &EntryAction, action: &EntryAction) -> bool {
    match (wanted, action) {
        (EntryAction::Call(wanted), EntryAction::Call(call)) => wanted.action_id == call.action_id,
        (EntryAction::OneShot(_), EntryAction::OneShot(_)) => true,
        _ => wanted == action,
    }
}
