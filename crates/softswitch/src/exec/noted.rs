//! State that a running program reports to the packet log.

use super::calculation::Fields;
use super::{Packet, State};
use crate::packet_log::Journal;
use crate::program::{Calculation, Program};
use crate::table::{Behaviour, BoundAction, Entry};

impl State {
    /// Records an event in the journal, if the state has a journal.
    #[cold]
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut Journal, &mut Self)) {
        // The journal reads all of the state and is itself a part of the state: so it is taken out meanwhile.
        if let Some(mut journal) = self.journal.take() {
            tell(&mut journal, self);
            self.journal = Some(journal);
        }
    }

    #[cold]
    pub(super) fn note(&mut self, program: &Program, packet: &Packet<'_>, note: u16) {
        self.tell(|journal, state| journal.note(program, state, packet, note));
    }

    /// The entry that a table has for the packet, and the action that it is going to run.
    /// Nothing is counted.
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
