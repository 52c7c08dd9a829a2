//! Messages and steps that a program logs.

use std::fmt::Write as _;

use super::{MachineState, Packet};
use crate::program::{Level, Message, Place, Program};

impl MachineState {
    /// Logs a message.
    pub(super) fn say(&mut self, message: &Message) {
        self.tell(|journal, state| journal.message(state.text(message)));
        match message.level {
            Level::Info if tracing::enabled!(tracing::Level::INFO) => {
                tracing::info!("{}", self.text(message));
            }
            Level::Error => tracing::error!("{}", self.text(message)),
            Level::Info => {}
        }
    }

    /// Records a step of the program in the journal.
    #[cold]
    pub(super) fn note(&mut self, program: &Program, packet: &Packet<'_>, note: u16) {
        self.tell(|journal, state| journal.note(program, state, packet, note));
    }

    fn text(&self, message: &Message) -> String {
        let mut text = String::new();
        let mut values = message.values.iter();
        for (index, piece) in message.text.iter().enumerate() {
            if index > 0 {
                let written = match values.next() {
                    Some(Place::Word(word)) => write!(text, "{}", self.get(*word)),
                    Some(Place::Lines(line)) => {
                        let limbs = self.lines[usize::from(*line)].iter().rev();
                        limbs.fold(write!(text, "0x"), |_, limb| write!(text, "{limb:016x}"))
                    }
                    None => write!(text, "{{}}"),
                };
                // Writing to a string does not fail.
                let _ = written;
            }
            text.push_str(piece);
        }
        text
    }
}
