//! What the packet log wants to know while a program runs.

use super::calculation::Fields;
use super::{Packet, State};
use crate::packet_log::Journal;
use crate::program::{Calculation, Program};
use crate::table::{Behaviour, BoundAction, Entry};

impl State {
    /// Tells the journal something, if there is one.
    #[cold]
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut Journal, &mut Self)) {
        // It looks at all of the state, of which it is a part.
        if let Some(mut journal) = self.journal.take() {
            tell(&mut journal, self);
            self.journal = Some(journal);
        }
    }

    #[cold]
    pub(super) fn note(&mut self, program: &Program, packet: &Packet<'_>, note: u16) {
        self.tell(|journal, state| journal.note(program, state, packet, note));
    }

    /// The entry that a table has for the packet, and the action that it is going to run. Nothing is counted.
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
