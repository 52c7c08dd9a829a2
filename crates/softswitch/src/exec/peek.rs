//! Looks up a table for the packet log, without side effects.

use super::MachineState;
use super::calculation::Fields;
use crate::program::{Calculation, Program};
use crate::table::{Behaviour, BoundAction, Entry};

impl MachineState {
    /// Returns the entry that the packet matches in a table, and the action that the table will
    /// run.
    /// It changes no counters.
    pub(crate) fn peek(&self, program: &Program, table: usize) -> (Option<&Entry>, Option<&BoundAction>) {
        let Self { tables, profiles, words, lines, .. } = self;
        let (Some(known), Some(described)) = (tables.get(table), program.tables.get(table)) else {
            return (None, None);
        };
        let Some(entry) = known.peek(described, &**words, lines) else {
            return (None, known.default_entry().action.as_ref().map(|action| &action.bound));
        };
        let chosen = |behaviour| {
            let profile = described.profile?;
            let (fields, mut room) = (Fields::of(program, words, lines), Vec::new());
            let hash = |selector: &Calculation| fields.calculate(selector, &[], &mut room);
            profiles.get(profile)?.choose(behaviour, program.profiles.get(profile)?, table, hash)
        };
        let bound = match &entry.behaviour {
            Behaviour::Action(action) => Some(&action.bound),
            behaviour => chosen(behaviour),
        };
        (Some(entry), bound)
    }
}
