//! Events that the journal reads from the switch's state: program steps and changed fields.

use super::event::{At, Event, NamedValue};
use super::journal::Journal;
use super::lookup;
use super::value::Value;
use crate::exec::{MachineState, Packet};
use crate::program::{FieldName, HeaderNames, Line, Note, Place, Program, Word, lines_for};

impl Journal {
    /// Records the result of the parser.
    pub(crate) fn parsed(&mut self, program: &Program, state: &MachineState) {
        let error = state.get(program.standard.parser_error);
        let Some(notes) = program.notes.as_ref().filter(|_| error != 0) else {
            return self.push(Event::Accept);
        };
        let known = notes.errors.iter().find(|(_, number)| *number == error);
        let error = known.map_or_else(|| error.to_string(), |(name, _)| name.clone());
        self.push(Event::ParserError { error });
    }

    /// Records the fields that have changed, then a step of the program.
    pub(crate) fn note(
        &mut self,
        program: &Program,
        state: &mut MachineState,
        packet: &Packet<'_>,
        note: u16,
    ) {
        self.tell_changes(program, state);
        let note = program.notes.as_ref().and_then(|notes| notes.notes.get(usize::from(note)));
        if let Some(event) = note.and_then(|note| event(note, program, state, packet)) {
            self.push(event);
        }
    }

    /// Sets the baseline to the current fields, without a report of changes.
    pub(crate) fn look(&mut self, program: &Program, state: &MachineState) {
        self.words.clear();
        self.words.extend_from_slice(&state.words[..program.field_words]);
        self.lines.clear();
        self.lines.extend_from_slice(&state.lines[..program.field_lines]);
    }

    /// Logs the fields and headers that have changed.
    pub(crate) fn tell_changes(&mut self, program: &Program, state: &MachineState) {
        let Some(notes) = &program.notes else { return };
        let (words, lines) = (&state.words[..program.field_words], &state.lines[..program.field_lines]);
        if self.words == words && self.lines == lines {
            return;
        }
        let (before, now) =
            (PacketFields { words: &self.words, lines: &self.lines }, PacketFields { words, lines });
        let mut events = Vec::new();
        notes.headers.iter().for_each(|header| changes(header, before, now, &mut events));
        events.into_iter().for_each(|event| self.push(event));
        self.look(program, state);
    }
}

/// A packet's fields.
#[derive(Clone, Copy)]
struct PacketFields<'a> {
    words: &'a [u64],
    lines: &'a [Line],
}

impl PacketFields<'_> {
    fn has(self, header: &HeaderNames) -> bool {
        header.valid.is_none_or(|word| self.word(word) != 0)
    }

    fn word(self, word: Word) -> u64 {
        self.words.get(usize::from(word)).copied().unwrap_or(0)
    }

    fn value(self, field: &FieldName) -> Value {
        let bits = field.length.map_or(field.bits, |length| {
            u32::try_from(self.word(length)).unwrap_or(u32::MAX).min(field.bits)
        });
        value(field.place, bits, self.words, self.lines)
    }
}

fn changes(header: &HeaderNames, before: PacketFields<'_>, now: PacketFields<'_>, events: &mut Vec<Event>) {
    let name = || header.name.clone();
    match (before.has(header), now.has(header)) {
        (false, false) => {}
        (true, false) => events.push(Event::Invalid { header: name() }),
        (false, true) => {
            let fields = header.fields.iter();
            let fields = fields.map(|field| NamedValue { name: field.name.clone(), value: now.value(field) });
            events.push(Event::Valid { header: name(), fields: fields.collect() });
        }
        (true, true) => {
            for field in &header.fields {
                let (from, to) = (before.value(field), now.value(field));
                if from != to {
                    events.push(Event::Set { field: header.path(field), from, to });
                }
            }
        }
    }
}

/// Returns the event of a step for this packet.
fn event(note: &Note, program: &Program, state: &mut MachineState, packet: &Packet<'_>) -> Option<Event> {
    Some(match note {
        Note::State { name } => Event::State { name: name.clone() },
        Note::Condition { condition, holds, source } => Event::Condition {
            condition: condition.clone(),
            holds: *holds,
            source: At { source: source.clone() },
        },
        Note::Table { table, parameters, source } => {
            return lookup::event(program, state, *table, parameters, source.clone());
        }
        Note::Statements { statements, source } => {
            Event::Statements { statements: statements.clone(), source: At { source: source.clone() } }
        }
        Note::Count { counter, index } => Event::Count { counter: counter.clone(), index: state.get(*index) },
        Note::Read { name, register: array, index, bits } => {
            let (array, index) = (usize::from(*array), state.get(*index));
            let word = state.registers.word(array, index).map(|word| Value::word(word, *bits));
            let lines =
                || state.registers.lines(array, index).map(|lines| value(Place::Lines(0), *bits, &[], lines));
            Event::Read { register: name.clone(), index, value: word.or_else(lines) }
        }
        Note::Write { name, index, value: place, bits } => Event::Write {
            register: name.clone(),
            index: state.get(*index),
            value: value(*place, *bits, &*state.words, &state.lines),
        },
        Note::Verify { checksum, field, field_bits } => {
            let checksum = program.checksums.get(usize::from(*checksum))?;
            let (value, computed) = (state.get(checksum.target), state.checksum(program, packet, checksum));
            Event::Checksum {
                field: field.clone(),
                right: value == computed,
                value: Value::word(value, *field_bits),
                computed: Value::word(computed, *field_bits),
            }
        }
    })
}

/// Returns the value at a place.
fn value(place: Place, bits: u32, words: &[u64], lines: &[Line]) -> Value {
    match place {
        Place::Word(word) => Value::word(words.get(usize::from(word)).copied().unwrap_or(0), bits),
        Place::Lines(line) => {
            let (first, count) = (usize::from(line), usize::from(lines_for(bits)));
            let limbs = lines.get(first..first + count).unwrap_or_default().as_flattened();
            Value::new(&limbs[..limbs.len().min(bits.div_ceil(64) as usize)], bits)
        }
    }
}

impl HeaderNames {
    /// Returns a field's name with its header's name in front.
    ///
    /// p4c's header "scalars" holds variables, which have no header in the P4 source.
    fn path(&self, field: &FieldName) -> String {
        match self.name.as_str() {
            "scalars" => field.name.clone(),
            header => format!("{header}.{}", field.name),
        }
    }
}
