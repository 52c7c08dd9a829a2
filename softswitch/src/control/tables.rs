//! Tables, as the control plane sees them.

use std::time::Instant;

use tributary_p4runtime::p4info::Scope;

use super::described::{Described, describe};
use super::{
    ActionCall, CounterValue, DirectResources, EntryAction, EntryKey, FieldMatch, MeterConfig, TableEntry,
    meters,
};
use crate::error::ControlError;
use crate::exec::State;
use crate::program::Pattern;
use crate::switch::Switch;
use crate::table::{Action, Behaviour, Entry};

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
        described.check_timeout(entry)?;
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
        let mut added = Entry { metadata: entry.metadata.clone(), ..Entry::new(pattern, behaviour) };
        added.idle.set_timeout(entry.idle_timeout);
        self.state.tables[described.ids.index].add(added);
        self.timeout_changed(entry);
        Ok(())
    }

    /// Changes the action of an entry, its note and its timeout; its counter goes on.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn modify(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(&entry.key)?;
        described.check_timeout(entry)?;
        let behaviour = self.behaviour(described, &entry.action)?;
        let known = self.state.tables[described.ids.index].entry_mut(&pattern);
        let known = known.ok_or_else(|| ControlError::NotFound(described.entry_name()))?;
        known.metadata.clone_from(&entry.metadata);
        known.idle.set_timeout(entry.idle_timeout);
        let before = std::mem::replace(&mut known.behaviour, behaviour);
        self.state.refer(described.program, &before, -1);
        self.refer_to(described, &pattern);
        self.timeout_changed(entry);
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

    /// One entry, and what it has besides its action.
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

    /// All entries of a table, in no particular order.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn entries(&self, table_id: u32) -> Result<Vec<(TableEntry, DirectResources)>, ControlError> {
        let described = describe(&self.pipeline, table_id)?;
        let (table, now) = (&self.state.tables[described.ids.index], Instant::now());
        Ok(table.entries().map(|entry| self.show(described, entry, now)).collect())
    }

    /// Sets the default action of a table, for packets that nothing matches; `None` restores the program's own.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`.
    pub fn set_default(&mut self, table_id: u32, action: Option<&ActionCall>) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, table_id)?;
        let program = described.program;
        if program.default_is_constant || program.profile.is_some() {
            return Err(ControlError::Constant(format!("the default action of table {}", program.name)));
        }
        let action = match action {
            Some(call) => Some(described.action(call, Scope::DefaultOnly)?),
            None => program.default.clone().map(|invocation| Action::new(invocation, program)),
        };
        self.state.tables[described.ids.index].set_default(action);
        Ok(())
    }

    /// The default action of a table (`None`: nothing is done), and the direct counter of packets that nothing matches.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn default_action(
        &self,
        table_id: u32,
    ) -> Result<(Option<ActionCall>, Option<CounterValue>), ControlError> {
        let described = describe(&self.pipeline, table_id)?;
        let (action, counter) = self.state.tables[described.ids.index].default();
        let call = action.map(|action| described.call(&action.invocation));
        Ok((call, described.program.counts.then_some(counter)))
    }

    /// Overwrites the direct counter of an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also where the table has none), `NotFound`.
    pub fn set_direct_counter(&mut self, key: &EntryKey, value: CounterValue) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, key.table_id)?;
        if !described.program.counts {
            return Err(described.invalid("it has no direct counter".to_owned()));
        }
        self.entry_to_change(described, key)?.counter = value;
        Ok(())
    }

    /// Sets the rates of an entry's meter, and fills its buckets.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also where the table has no meter), `NotFound`.
    pub fn set_direct_meter(
        &mut self,
        key: &EntryKey,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, key.table_id)?;
        if described.program.meter.is_none() {
            return Err(described.invalid("it has no direct meter".to_owned()));
        }
        meters::check(config, &format!("table {}", described.program.name))?;
        self.entry_to_change(described, key)?.meter.configure(config);
        Ok(())
    }

    /// The entries that no packet has hit for as long as their timeouts. Each is named again after another timeout.
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

    fn timeout_changed(&mut self, entry: &TableEntry) {
        if !entry.idle_timeout.is_zero() {
            self.scan_within(entry.idle_timeout);
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

    /// Notes what an entry refers to.
    fn refer_to(&mut self, described: Described<'_>, pattern: &Pattern) {
        let State { tables, profiles, .. } = &mut self.state;
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
            counter: program.counts.then_some(entry.counter),
            meter: entry.meter.config(),
            since_last_hit: program.times_out.then(|| entry.idle.since_last_hit(now)),
            constant: described.ids.constant_entries,
        };
        (shown, resources)
    }
}
