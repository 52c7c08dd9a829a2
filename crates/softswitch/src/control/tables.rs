//! The control plane's access to tables.

use std::time::{Duration, Instant};

use tributary_p4runtime::p4info::Scope;

use super::described::{Described, describe};
use super::{
    ActionCall, CounterValue, DefaultEntry, DirectResources, EntryAction, EntryKey, EntryRef, FieldMatch,
    MeterConfig, TableEntry, meters,
};
use crate::error::ControlError;
use crate::exec::MachineState;
use crate::meters::Meter;
use crate::program::{MeterKind, Pattern};
use crate::switch::Switch;
use crate::table::{Action, Behaviour, Entry, Resources};

impl Switch {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `AlreadyExists`, `Full`, `NotFound` (a member or
    /// group).
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(&entry.key)?;
        described.check_timeout(entry.idle_timeout)?;
        let behaviour = self.behaviour(described, &entry.action)?;
        let table = &mut self.state.tables[described.ids.index];
        if table.entry(&pattern).is_some() {
            return Err(ControlError::AlreadyExists(described.entry_name()));
        }
        if table.len() >= described.program.size {
            let (name, size) = (described.program.name.clone(), described.program.size);
            return Err(ControlError::Full { table: name, size });
        }
        self.state.refer(described.program, &behaviour, 1);
        let new = Entry::new(pattern, behaviour, described.program);
        let mut added = Entry { metadata: entry.metadata.clone(), ..new };
        added.idle.set_timeout(entry.idle_timeout);
        self.state.tables[described.ids.index].add(added);
        self.timeout_changed(entry.idle_timeout);
        Ok(())
    }

    /// Changes the action of an entry, its controller data and its timeout. Its counter is kept.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn modify(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(&entry.key)?;
        described.check_timeout(entry.idle_timeout)?;
        let behaviour = self.behaviour(described, &entry.action)?;
        let known = self.state.tables[described.ids.index].entry_mut(&pattern);
        let known = known.ok_or_else(|| ControlError::NotFound(described.entry_name()))?;
        known.metadata.clone_from(&entry.metadata);
        known.idle.set_timeout(entry.idle_timeout);
        let before = std::mem::replace(&mut known.behaviour, behaviour);
        self.state.refer(described.program, &before, -1);
        self.refer_to(described, &pattern);
        self.timeout_changed(entry.idle_timeout);
        Ok(())
    }

    /// Changes the controller data of an entry and its timeout, but not its action.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn modify_note(
        &mut self,
        key: &EntryKey,
        metadata: &[u8],
        idle_timeout: Duration,
    ) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, key.table_id)?;
        described.writable()?;
        described.check_timeout(idle_timeout)?;
        let known = self.entry_to_change(described, key)?;
        known.metadata = metadata.to_vec();
        known.idle.set_timeout(idle_timeout);
        self.timeout_changed(idle_timeout);
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn delete(&mut self, key: &EntryKey) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(key)?;
        let removed = self.state.tables[described.ids.index].remove(&pattern);
        let removed = removed.ok_or_else(|| ControlError::NotFound(described.entry_name()))?;
        self.state.refer(described.program, &removed.behaviour, -1);
        Ok(())
    }

    /// Returns one entry, and its resources besides the action.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `NotFound`.
    pub fn entry(&self, key: &EntryKey) -> Result<(TableEntry, DirectResources), ControlError> {
        let described = describe(&self.pipeline, key.table_id)?;
        let pattern = described.pattern(key)?;
        let entry = self.state.tables[described.ids.index].entry(&pattern);
        let entry = entry.ok_or_else(|| ControlError::NotFound(described.entry_name()))?;
        Ok(self.show(described, entry, Instant::now()))
    }

    /// Returns all entries of a table, in no particular order.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn entries(&self, table_id: u32) -> Result<Vec<(TableEntry, DirectResources)>, ControlError> {
        if self.pipeline.directory.absent_tables.contains(&table_id) {
            return Ok(Vec::new());
        }
        let described = describe(&self.pipeline, table_id)?;
        let (table, now) = (&self.state.tables[described.ids.index], Instant::now());
        Ok(table.entries().map(|entry| self.show(described, entry, now)).collect())
    }

    /// Sets the default action of a table, for packets that match no entry.
    ///
    /// `None` restores the program's own default action, without controller data and without rates.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`.
    pub fn set_default(&mut self, table_id: u32, call: Option<&ActionCall>) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, table_id)?;
        let program = described.program;
        if program.default_is_constant || program.profile.is_some() {
            return Err(ControlError::Constant(format!("the default action of table {}", program.name)));
        }
        let action = match call {
            Some(call) => Some(described.action(call, Scope::DefaultOnly)?),
            None => program.default.clone().map(|invocation| Action::new(invocation, program)),
        };
        let resets = call.is_none();
        let default = self.state.tables[described.ids.index].default_entry_mut();
        default.action = action;
        if resets {
            default.metadata.clear();
            if let (Some(meter), Some(direct)) = (&mut default.resources.meter, program.meter) {
                meter.configure(direct.kind, None);
            }
        }
        Ok(())
    }

    /// Sets the controller data of a table's default entry.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn set_default_note(&mut self, table_id: u32, metadata: &[u8]) -> Result<(), ControlError> {
        let index = describe(&self.pipeline, table_id)?.ids.index;
        self.state.tables[index].default_entry_mut().metadata = metadata.to_vec();
        Ok(())
    }

    /// Returns the entry for packets that match no other entry.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn default_entry(&self, table_id: u32) -> Result<DefaultEntry, ControlError> {
        let described = describe(&self.pipeline, table_id)?;
        let default = self.state.tables[described.ids.index].default_entry();
        let resources = DirectResources {
            constant: described.program.default_is_constant,
            ..show_resources(described, &default.resources)
        };
        Ok(DefaultEntry {
            action: default.action.as_ref().map(|action| described.call(&action.invocation)),
            metadata: default.metadata.clone(),
            resources,
        })
    }

    /// Overwrites a direct counter. A value of `None` leaves the counter unchanged.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also if the table has no counters),
    /// `NotFound`.
    pub fn set_direct_counter(
        &mut self,
        entry: &EntryRef,
        value: Option<CounterValue>,
    ) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.table_id())?;
        if !described.program.counts {
            return Err(described.invalid("it has no direct counter".to_owned()));
        }
        let counter = &mut self.resources(described, entry)?.counter;
        *counter = value.unwrap_or(*counter);
        Ok(())
    }

    /// Checks that a table's direct meters can have these rates.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also if the table has no meters).
    pub fn check_direct_meter(&self, table_id: u32, config: Option<MeterConfig>) -> Result<(), ControlError> {
        let described = describe(&self.pipeline, table_id)?;
        let meter = described.program.meter;
        let meter = meter.ok_or_else(|| described.invalid("it has no direct meter".to_owned()))?;
        meters::check(meter.kind, config, &format!("table {}", described.program.name))
    }

    /// Sets the rates of a direct meter, and fills its buckets.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also if the table has no meters),
    /// `NotFound`.
    pub fn set_direct_meter(
        &mut self,
        entry: &EntryRef,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        self.check_direct_meter(entry.table_id(), config)?;
        self.change_direct_meter(entry, |meter, kind| meter.configure(kind, config))
    }

    /// Clears the counts of packets that a direct meter has marked.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also if the table has no meters),
    /// `NotFound`.
    pub fn clear_direct_colours(&mut self, entry: &EntryRef) -> Result<(), ControlError> {
        self.change_direct_meter(entry, |meter, _| meter.forget_marked())
    }

    fn change_direct_meter(
        &mut self,
        entry: &EntryRef,
        change: impl FnOnce(&mut Meter, MeterKind),
    ) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.table_id())?;
        match (&mut self.resources(described, entry)?.meter, described.program.meter) {
            (Some(meter), Some(direct)) => change(meter, direct.kind),
            _ => return Err(described.invalid("it has no direct meter".to_owned())),
        }
        Ok(())
    }

    fn resources(
        &mut self,
        described: Described<'_>,
        entry: &EntryRef,
    ) -> Result<&mut Resources, ControlError> {
        Ok(match entry {
            EntryRef::Entry(key) => &mut self.entry_to_change(described, key)?.resources,
            EntryRef::Default(_) => &mut self.state.tables[described.ids.index].default_entry_mut().resources,
        })
    }

    /// Returns the entries that no packet has hit during their timeouts.
    /// An entry is returned again after each further timeout.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<TableEntry> {
        let pipeline = self.pipeline.clone();
        let mut expired = Vec::new();
        for id in pipeline.directory.tables.keys() {
            let Ok(described) = describe(&pipeline, *id) else { continue };
            if !described.program.times_out {
                continue;
            }
            let entries = self.state.tables[described.ids.index].entries_mut();
            let patterns: Vec<Pattern> =
                entries.filter_map(|entry| entry.idle.expires(now).then(|| entry.pattern.clone())).collect();
            let table = &self.state.tables[described.ids.index];
            let entries = patterns.iter().filter_map(|pattern| table.entry(pattern));
            expired.extend(entries.map(|entry| self.show(described, entry, now).0));
        }
        expired
    }

    fn timeout_changed(&mut self, timeout: Duration) {
        if !timeout.is_zero() {
            self.scan_within(timeout);
        }
    }

    fn entry_to_change(
        &mut self,
        described: Described<'_>,
        key: &EntryKey,
    ) -> Result<&mut Entry, ControlError> {
        let pattern = described.pattern(key)?;
        let entry = self.state.tables[described.ids.index].entry_mut(&pattern);
        entry.ok_or_else(|| ControlError::NotFound(described.entry_name()))
    }

    /// Counts the reference of an entry to a member or group of an action profile.
    fn refer_to(&mut self, described: Described<'_>, pattern: &Pattern) {
        let MachineState { tables, profiles, .. } = &mut self.state;
        let entry = tables[described.ids.index].entry(pattern);
        if let (Some(entry), Some(profile)) = (entry, described.program.profile) {
            profiles[profile].refer(&entry.behaviour, 1);
        }
    }

    fn behaviour(&self, described: Described<'_>, action: &EntryAction) -> Result<Behaviour, ControlError> {
        match (action, described.program.profile) {
            (EntryAction::Call(call), None) => {
                Ok(Behaviour::Action(described.action(call, Scope::TableOnly)?))
            }
            (EntryAction::Call(_), Some(_)) => Err(described.invalid(
                "its entries refer to an action profile: give a member, a group or a set of actions"
                    .to_owned(),
            )),
            (_, None) => Err(described.invalid("it has no action profile: give an action".to_owned())),
            (action, Some(profile)) => self.profile_behaviour(described, profile, action),
        }
    }

    fn show(&self, described: Described<'_>, entry: &Entry, now: Instant) -> (TableEntry, DirectResources) {
        let program = described.program;
        let matches = entry.pattern.matches(&program.key).into_iter().zip(&described.ids.fields);
        let mut matches: Vec<FieldMatch> =
            matches.filter_map(|(key, id)| key.map(|key| FieldMatch { field_id: *id, key })).collect();
        matches.sort_by_key(|field| field.field_id);
        let key = EntryKey { table_id: described.id, matches, priority: entry.pattern.priority };
        let action = match &entry.behaviour {
            Behaviour::Action(action) => EntryAction::Call(described.call(&action.invocation)),
            behaviour => self.shown_behaviour(program, behaviour),
        };
        let metadata = entry.metadata.clone();
        let shown = TableEntry { key, action, metadata, idle_timeout: entry.idle.timeout() };
        let resources = DirectResources {
            since_last_hit: program.times_out.then(|| entry.idle.since_last_hit(now)),
            constant: described.ids.constant_entries,
            ..show_resources(described, &entry.resources)
        };
        (shown, resources)
    }
}

impl EntryRef {
    /// Id of the table.
    pub fn table_id(&self) -> u32 {
        match self {
            Self::Entry(key) => key.table_id,
            Self::Default(table_id) => *table_id,
        }
    }
}

fn show_resources(described: Described<'_>, resources: &Resources) -> DirectResources {
    DirectResources {
        counter: described.program.counts.then_some(resources.counter),
        meter: resources.meter.as_ref().and_then(|meter| meter.config()),
        colours: resources.meter.as_deref().map(meters::colours),
        ..DirectResources::default()
    }
}
