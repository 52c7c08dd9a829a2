//! Tables, as the control plane sees them.

use tributary_p4runtime::canonical;
use tributary_p4runtime::p4info::Scope;

use super::{ActionCall, CounterValue, EntryKey, FieldMatch, KeyMatch, TableEntry};
use crate::check::{ActionIds, TableIds};
use crate::error::ControlError;
use crate::program::{Invocation, MatchKind, Pattern, TableProgram};
use crate::switch::Switch;
use crate::table::{Action, Entry};

/// A table by id: its ids, and its description in the program.
#[derive(Clone, Copy)]
struct Described<'a> {
    id: u32,
    ids: &'a TableIds,
    program: &'a TableProgram,
}

impl Switch {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `AlreadyExists`, `Full`.
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(&entry.key)?;
        let action = described.action(&entry.action, Scope::TableOnly)?;
        let table = &mut self.state.tables[described.ids.index];
        if table.entry(&pattern).is_some() {
            return Err(ControlError::AlreadyExists(described.entry_name()));
        }
        if table.len() >= described.program.size {
            let (name, size) = (described.program.name.clone(), described.program.size);
            return Err(ControlError::Full { table: name, size });
        }
        table.add(Entry {
            pattern,
            action,
            metadata: entry.metadata.clone(),
            counter: CounterValue::default(),
        });
        Ok(())
    }

    /// Changes the action of an entry; its counter goes on.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn modify(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, entry.key.table_id)?;
        described.writable()?;
        let pattern = described.pattern(&entry.key)?;
        let action = described.action(&entry.action, Scope::TableOnly)?;
        let known = self.state.tables[described.ids.index].entry_mut(&pattern);
        let known = known.ok_or_else(|| ControlError::NotFound(described.entry_name()))?;
        known.action = action;
        known.metadata.clone_from(&entry.metadata);
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
        if self.state.tables[described.ids.index].remove(&pattern) {
            return Ok(());
        }
        Err(ControlError::NotFound(described.entry_name()))
    }

    /// One entry with its direct counter; `None` where the table has no counter.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `NotFound`.
    pub fn entry(&self, key: &EntryKey) -> Result<(TableEntry, Option<CounterValue>), ControlError> {
        let described = describe(&self.pipeline, key.table_id)?;
        let pattern = described.pattern(key)?;
        let entry = self.state.tables[described.ids.index].entry(&pattern);
        Ok(described.show(entry.ok_or_else(|| ControlError::NotFound(described.entry_name()))?))
    }

    /// All entries of a table with their direct counters, in no particular order.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn entries(&self, table_id: u32) -> Result<Vec<(TableEntry, Option<CounterValue>)>, ControlError> {
        let described = describe(&self.pipeline, table_id)?;
        let table = &self.state.tables[described.ids.index];
        Ok(table.entries().map(|entry| described.show(entry)).collect())
    }

    /// Sets the default action of a table, for packets that nothing matches; `None` restores the program's own.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`.
    pub fn set_default(&mut self, table_id: u32, action: Option<&ActionCall>) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let described = describe(&pipeline, table_id)?;
        let program = described.program;
        if program.default_is_constant {
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
        let pattern = described.pattern(key)?;
        let entry = self.state.tables[described.ids.index].entry_mut(&pattern);
        entry.ok_or_else(|| ControlError::NotFound(described.entry_name()))?.counter = value;
        Ok(())
    }
}

fn describe(pipeline: &crate::Pipeline, id: u32) -> Result<Described<'_>, ControlError> {
    let ids = pipeline.directory.tables.get(&id).ok_or(ControlError::UnknownId { what: "table", id })?;
    Ok(Described { id, ids, program: &pipeline.program.tables[ids.index] })
}

impl<'a> Described<'a> {
    fn invalid(&self, problem: String) -> ControlError {
        ControlError::InvalidArgument { place: format!("table {}", self.program.name), problem }
    }

    fn entry_name(&self) -> String {
        format!("an entry of table {} with this key", self.program.name)
    }

    /// Checks that entries of the table can be written at all.
    fn writable(&self) -> Result<(), ControlError> {
        if self.ids.constant_entries {
            return Err(ControlError::Constant(format!("table {}", self.program.name)));
        }
        if self.program.key.is_empty() {
            return Err(self.invalid("it has no key: only its default action can be set".to_owned()));
        }
        Ok(())
    }

    fn pattern(&self, key: &EntryKey) -> Result<Pattern, ControlError> {
        let mut matches: Vec<Option<&KeyMatch>> = vec![None; self.ids.fields.len()];
        for field in &key.matches {
            let place = self.ids.fields.iter().position(|id| *id == field.field_id);
            let place =
                place.ok_or_else(|| self.invalid(format!("it has no match field {}", field.field_id)))?;
            if matches[place].replace(&field.key).is_some() {
                return Err(self.invalid(format!("match field {} is there twice", field.field_id)));
            }
        }
        let overlap = |kind| matches!(kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional);
        let needs_priority = self.program.key.iter().any(|field| overlap(field.kind));
        if needs_priority && key.priority <= 0 {
            return Err(self.invalid("its entries overlap: they need a priority above 0".to_owned()));
        }
        if !needs_priority && key.priority != 0 {
            return Err(self.invalid(format!("its entries have no priority: {} should be 0", key.priority)));
        }
        Pattern::new(&self.program.key, self.program.key_words, &matches, key.priority)
            .map_err(|problem| self.invalid(problem))
    }

    /// An action of the table, in an entry ([`Scope::TableOnly`]) or as the default.
    fn action(&self, call: &ActionCall, wanted: Scope) -> Result<Action, ControlError> {
        let index = self.ids.actions.iter().position(|action| action.id == call.action_id);
        let index =
            index.ok_or_else(|| self.invalid(format!("it has no action with id {:#x}", call.action_id)))?;
        let ids = &self.ids.actions[index];
        let program = &self.program.actions[index];
        if ids.scope != Scope::TableAndDefault && ids.scope != wanted {
            let only = if wanted == Scope::TableOnly { "its default action" } else { "its entries" };
            return Err(self.invalid(format!("action {} is only for {only}", program.name)));
        }
        let invalid =
            |problem| ControlError::InvalidArgument { place: format!("action {}", program.name), problem };
        let arguments = self.arguments(ids, &program.parameters, call).map_err(invalid)?;
        Ok(Action::new(Invocation { action: index, arguments }, self.program))
    }

    /// The arguments in the order of the program.
    fn arguments(&self, ids: &ActionIds, widths: &[u32], call: &ActionCall) -> Result<Vec<Vec<u8>>, String> {
        if let Some((id, _)) = call.params.iter().find(|(id, _)| !ids.parameters.contains(id)) {
            return Err(format!("it has no parameter {id}"));
        }
        let argument = |(id, width): (&u32, &u32)| {
            let mut given = call.params.iter().filter(|(given, _)| given == id);
            match (given.next(), given.next()) {
                (Some((_, value)), None) => canonical::check(value, *width)
                    .map(<[u8]>::to_vec)
                    .map_err(|error| format!("parameter {id}: {error}")),
                (None, _) => Err(format!("parameter {id} is missing")),
                (Some(_), Some(_)) => Err(format!("parameter {id} is there twice")),
            }
        };
        ids.parameters.iter().zip(widths).map(argument).collect()
    }

    fn show(&self, entry: &Entry) -> (TableEntry, Option<CounterValue>) {
        let matches = entry.pattern.matches(&self.program.key).into_iter().zip(&self.ids.fields);
        let mut matches: Vec<FieldMatch> =
            matches.filter_map(|(key, id)| key.map(|key| FieldMatch { field_id: *id, key })).collect();
        matches.sort_by_key(|field| field.field_id);
        let key = EntryKey { table_id: self.id, matches, priority: entry.pattern.priority };
        let action = self.call(&entry.action.invocation);
        let shown = TableEntry { key, action, metadata: entry.metadata.clone() };
        (shown, self.program.counts.then_some(entry.counter))
    }

    fn call(&self, invocation: &Invocation) -> ActionCall {
        let ids = &self.ids.actions[invocation.action];
        let values = invocation.arguments.iter().map(|value| {
            let zeros = value.iter().take_while(|byte| **byte == 0).count();
            value[zeros.min(value.len().saturating_sub(1))..].to_vec()
        });
        ActionCall { action_id: ids.id, params: ids.parameters.iter().copied().zip(values).collect() }
    }
}
