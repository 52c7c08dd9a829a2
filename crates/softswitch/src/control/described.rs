//! Converts the control plane's keys and actions of a table to the forms that the table stores.

use std::borrow::Cow;
use std::time::Duration;

use tributary_p4runtime::p4info::Scope;

use super::{ActionCall, EntryKey, KeyMatch};
use crate::check::{ActionIds, TableIds};
use crate::error::ControlError;
use crate::program::Pattern;
use crate::program::{Invocation, MatchKind, TableProgram};
use crate::table::Action;
use crate::translation::Translation;

/// A table's ids, and its description in the program.
#[derive(Clone, Copy)]
pub(super) struct Described<'a> {
    pub(super) id: u32,
    pub(super) ids: &'a TableIds,
    pub(super) program: &'a TableProgram,
}

pub(super) fn describe(pipeline: &crate::Pipeline, id: u32) -> Result<Described<'_>, ControlError> {
    if pipeline.directory.absent_tables.contains(&id) {
        let name = pipeline.info().table_by_id(id).map_or("", |table| table.name.full.as_str());
        return Err(ControlError::InvalidArgument {
            place: format!("table {name}"),
            problem: "the compiler left it out, since no packet gets to it: it takes no entries".to_owned(),
        });
    }
    let ids = pipeline.directory.tables.get(&id).ok_or(ControlError::UnknownId { what: "table", id })?;
    Ok(Described { id, ids, program: &pipeline.program.tables[ids.index] })
}

impl<'a> Described<'a> {
    pub(super) fn invalid(&self, problem: String) -> ControlError {
        ControlError::InvalidArgument { place: format!("table {}", self.program.name), problem }
    }

    pub(super) fn entry_name(&self) -> String {
        format!("an entry of table {} with this key", self.program.name)
    }

    /// Checks that the control plane can write entries of the table.
    pub(super) fn writable(&self) -> Result<(), ControlError> {
        if self.ids.constant_entries {
            return Err(ControlError::Constant(format!("table {}", self.program.name)));
        }
        if self.program.key.is_empty() {
            return Err(self.invalid("it has no key: only its default action can be set".to_owned()));
        }
        Ok(())
    }

    pub(super) fn check_timeout(&self, timeout: Duration) -> Result<(), ControlError> {
        if timeout.is_zero() || self.program.times_out {
            return Ok(());
        }
        Err(self.invalid("it has no idle timeouts".to_owned()))
    }

    pub(super) fn pattern(&self, key: &EntryKey) -> Result<Pattern, ControlError> {
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

    /// Converts an action of the table, for an entry ([`Scope::TableOnly`]) or for the default.
    pub(super) fn action(&self, call: &ActionCall, wanted: Scope) -> Result<Action, ControlError> {
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

    /// Returns the arguments of an action in the order of the program.
    fn arguments(&self, ids: &ActionIds, widths: &[u32], call: &ActionCall) -> Result<Vec<Vec<u8>>, String> {
        if let Some((id, _)) = call.params.iter().find(|(id, _)| !ids.parameters.contains(id)) {
            return Err(format!("it has no parameter {id}"));
        }
        let argument = |((id, width), translation): ((&u32, &u32), &Translation)| {
            let mut given = call.params.iter().filter(|(given, _)| given == id);
            match (given.next(), given.next()) {
                (Some((_, value)), None) => translation
                    .decode(value, *width)
                    .map(Cow::into_owned)
                    .map_err(|problem| format!("parameter {id}: {problem}")),
                (None, _) => Err(format!("parameter {id} is missing")),
                (Some(_), Some(_)) => Err(format!("parameter {id} is there twice")),
            }
        };
        ids.parameters.iter().zip(widths).zip(&ids.translations).map(argument).collect()
    }

    pub(super) fn call(&self, invocation: &Invocation) -> ActionCall {
        let ids = &self.ids.actions[invocation.action];
        let values = invocation.arguments.iter().zip(&ids.translations).map(|(value, translation)| {
            let zeros = value.iter().take_while(|byte| **byte == 0).count();
            translation.encode(value[zeros.min(value.len().saturating_sub(1))..].to_vec())
        });
        ActionCall { action_id: ids.id, params: ids.parameters.iter().copied().zip(values).collect() }
    }
}
