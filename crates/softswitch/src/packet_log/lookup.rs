//! Events of table lookups.

use super::event::{At, Event, Hit, LoggedAction, LoggedKeyField, NamedValue};
use super::value::Value;
use crate::control::KeyMatch;
use crate::exec::MachineState;
use crate::program::{KeyField, KeySource, Program, Source, TableProgram, lines_for};
use crate::table::{Behaviour, BoundAction, Entry};

/// Returns the event of a table lookup, with the action that the table will run.
/// `parameters` has the names of the parameters of the table's actions.
pub(super) fn event(
    program: &Program,
    state: &MachineState,
    table: u16,
    parameters: &[Vec<String>],
    source: Option<Source>,
) -> Option<Event> {
    let index = usize::from(table);
    let described = program.tables.get(index)?;
    let (entry, bound) = state.peek(program, index);
    let key = described
        .key
        .iter()
        .map(|field| LoggedKeyField { field: field.name.clone(), value: read(field, state) });
    Some(Event::Table {
        name: described.name.clone(),
        key: key.collect(),
        hit: entry.map(|entry| hit(described, entry, state)),
        run: bound.map(|bound| call(described, bound, parameters)),
        source: At { source },
    })
}

/// Returns the packet's value of a key field.
fn read(field: &KeyField, state: &MachineState) -> Value {
    match field.source {
        KeySource::Word(word) => Value::word(state.get(word), field.bits),
        KeySource::Lines(line, count) => {
            let limbs = state.lines[usize::from(line)..].as_flattened();
            Value::new(limbs.get(..count).unwrap_or_default(), field.bits)
        }
    }
}

fn hit(table: &TableProgram, entry: &Entry, state: &MachineState) -> Hit {
    let matches = entry.pattern.matches(&table.key);
    let matches = table.key.iter().zip(&matches).map(|(field, matched)| in_p4(field, matched.as_ref()));
    let profile = table.profile.and_then(|profile| state.profiles.get(profile));
    let (member, group) = match (&entry.behaviour, profile) {
        (Behaviour::Member(place), Some(profile)) => (profile.member_at(*place), None),
        (Behaviour::Group(place), Some(profile)) => (None, profile.group_at(*place)),
        _ => (None, None),
    };
    Hit { matches: matches.collect(), priority: entry.pattern.priority, member, group }
}

/// Returns a match in P4's notation.
fn in_p4(field: &KeyField, matched: Option<&KeyMatch>) -> String {
    let value = |bytes: &[u8]| Value::bytes(bytes, field.bits);
    match matched {
        None => "_".to_owned(),
        Some(KeyMatch::Exact(bytes) | KeyMatch::Optional(bytes)) => value(bytes).to_string(),
        Some(KeyMatch::Lpm { value: bytes, prefix_len }) => format!("{}/{prefix_len}", value(bytes)),
        Some(KeyMatch::Ternary { value: bytes, mask }) => format!("{} &&& {}", value(bytes), value(mask)),
        Some(KeyMatch::Range { low, high }) => format!("{}..{}", value(low), value(high)),
    }
}

fn call(table: &TableProgram, bound: &BoundAction, parameters: &[Vec<String>]) -> LoggedAction {
    let index = usize::from(bound.action);
    let Some(action) = table.actions.get(index) else {
        return LoggedAction { action: String::new(), arguments: Vec::new() };
    };
    let names = parameters.get(index).map(Vec::as_slice).unwrap_or_default();
    let (mut words, mut lines) = (bound.words.iter(), bound.lines.as_slice());
    let argument = |(name, bits): (&String, &u32)| {
        let value = if *bits <= 64 {
            Value::word(words.next().copied().unwrap_or(0), *bits)
        } else {
            let (these, rest) = lines.split_at(usize::from(lines_for(*bits)).min(lines.len()));
            lines = rest;
            let limbs = these.as_flattened();
            Value::new(&limbs[..limbs.len().min(bits.div_ceil(64) as usize)], *bits)
        };
        NamedValue { name: name.clone(), value }
    };
    let arguments = names.iter().zip(&action.parameters).map(argument).collect();
    LoggedAction { action: action.name.clone(), arguments }
}
