//! The entries of one table, and the lookup of packets in them.
//!
//! A key is packed into words in the program's layout. An entry is a *value* and a *mask* of the same length; in the
//! words of a range field these are the lowest and the highest value instead. So exact, prefix, ternary and optional
//! fields are all compared in the same way.

mod action;
mod behaviour;
mod idle;
mod index;

pub(crate) use action::{Action, BoundAction};
pub(crate) use behaviour::{Behaviour, OneShot};
pub(crate) use idle::Idle;
use index::Index;

use crate::control::CounterValue;
use crate::meters::Meter;
use crate::program::{KeyField, KeySource, Line, MAX_KEY_WORDS, Pattern, TableProgram};

/// An entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) pattern: Pattern,
    pub(crate) behaviour: Behaviour,
    pub(crate) metadata: Vec<u8>,
    pub(crate) resources: Resources,
    pub(crate) idle: Idle,
}

impl Entry {
    /// Creates an entry that no packet has hit.
    pub(crate) fn new(pattern: Pattern, behaviour: Behaviour, program: &TableProgram) -> Self {
        Self {
            pattern,
            behaviour,
            metadata: Vec::new(),
            resources: Resources::new(program),
            idle: Idle::default(),
        }
    }
}

/// The counter and the meter of an entry, which packets update when they hit the entry.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    pub(crate) counter: CounterValue,
    /// The meter; `None` if the table has no meters.
    pub(crate) meter: Option<Box<Meter>>,
}

impl Resources {
    fn new(program: &TableProgram) -> Self {
        Self { counter: CounterValue::default(), meter: program.meter.map(|_| Box::default()) }
    }
}

/// The default entry, for packets that match no other entry.
#[derive(Debug, Clone)]
pub(crate) struct StoredDefaultEntry {
    /// The default action; `None` if such packets run no action.
    pub(crate) action: Option<Action>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) resources: Resources,
}

/// A table's entries.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    index: Index,
    /// Entries keep their index; a free place is `None`.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    default: StoredDefaultEntry,
}

/// The behaviour that a lookup has chosen.
pub(crate) enum Choice<'a> {
    /// An action of the entry itself, or of the default entry.
    Action(&'a BoundAction),
    /// A behaviour for which the action profile provides the action.
    Profile(&'a Behaviour),
}

/// The result of a lookup.
pub(crate) struct Lookup<'a> {
    /// True if an entry matched.
    pub(crate) hit: bool,
    /// The colour that the entry's meter gives the packet; `None` without a meter.
    pub(crate) colour: Option<u64>,
    /// The action to run; `None` if the packet runs no action.
    pub(crate) choice: Option<Choice<'a>>,
}

impl Table {
    /// Creates a table with the program's own entries.
    pub(crate) fn new(program: &TableProgram) -> Self {
        let mut table = Self {
            index: Index::new(program),
            entries: Vec::new(),
            free: Vec::new(),
            default: StoredDefaultEntry {
                action: program.default.clone().map(|invocation| Action::new(invocation, program)),
                metadata: Vec::new(),
                resources: Resources::new(program),
            },
        };
        for fixed in &program.fixed {
            // Of two entries with the same key, the first one is used.
            if table.index.find(&fixed.pattern).is_none() {
                let action = Behaviour::Action(Action::new(fixed.action.clone(), program));
                table.add(Entry::new(fixed.pattern.clone(), action, program));
            }
        }
        table
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns all entries. The caller may change everything except their patterns.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().flatten()
    }

    /// Returns all entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }

    fn at(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize)?.as_ref()
    }

    /// Returns the entry with exactly this pattern.
    pub(crate) fn entry(&self, pattern: &Pattern) -> Option<&Entry> {
        self.at(self.index.find(pattern)?)
    }

    /// Returns the entry with exactly this pattern. The caller may change everything except the
    /// pattern.
    pub(crate) fn entry_mut(&mut self, pattern: &Pattern) -> Option<&mut Entry> {
        let at = self.index.find(pattern)?;
        self.entries.get_mut(at as usize)?.as_mut()
    }

    /// Adds an entry. No other entry may have its pattern.
    pub(crate) fn add(&mut self, entry: Entry) {
        if matches!(self.index, Index::None) {
            return;
        }
        let at = self.free.pop().unwrap_or(self.entries.len() as u32);
        self.index.add(&entry.pattern, at);
        match self.entries.get_mut(at as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
    }

    /// Removes the entry with exactly this pattern, if there is one, and returns it.
    pub(crate) fn remove(&mut self, pattern: &Pattern) -> Option<Entry> {
        let at = self.index.find(pattern)?;
        self.index.remove(pattern);
        let removed = self.entries.get_mut(at as usize)?.take();
        self.free.push(at);
        removed
    }

    /// Returns the action for packets that match no entry.
    pub(crate) fn default_entry(&self) -> &StoredDefaultEntry {
        &self.default
    }

    /// Returns the default entry, of which the caller may change all parts.
    pub(crate) fn default_entry_mut(&mut self) -> &mut StoredDefaultEntry {
        &mut self.default
    }

    /// Returns the entry that a packet's key matches.
    pub(crate) fn peek(&self, program: &TableProgram, words: &[u64], lines: &[Line]) -> Option<&Entry> {
        self.at(self.locate(program, words, lines)?)
    }

    /// Returns the index of the entry that a packet's key matches.
    #[inline(always)]
    fn locate(&self, program: &TableProgram, words: &[u64], lines: &[Line]) -> Option<u32> {
        // Most keys are a single field of one word.
        if let ([field], 1) = (program.key.as_slice(), program.key_words) {
            let mut key = [0];
            pack(field, words, lines, &mut key);
            return self.index.look_up(&key);
        }
        let mut key = [0; MAX_KEY_WORDS];
        program.key.iter().for_each(|field| pack(field, words, lines, &mut key));
        self.index.look_up(&key[..program.key_words])
    }

    /// Looks up a packet's key and counts the packet; `bytes` is its length.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        program: &TableProgram,
        words: &[u64],
        lines: &[Line],
        bytes: usize,
    ) -> Lookup<'_> {
        let at = self.locate(program, words, lines);
        let entry = at.and_then(|at| self.entries.get_mut(at as usize)).and_then(Option::as_mut);
        let (hit, choice, resources) = match entry {
            Some(entry) => {
                if program.times_out {
                    entry.idle.hit();
                }
                let choice = match &entry.behaviour {
                    Behaviour::Action(action) => Choice::Action(&action.bound),
                    behaviour => Choice::Profile(behaviour),
                };
                (true, Some(choice), &mut entry.resources)
            }
            None => {
                let StoredDefaultEntry { action, resources, .. } = &mut self.default;
                (false, action.as_ref().map(|action| Choice::Action(&action.bound)), resources)
            }
        };
        if program.counts {
            let counter = &mut resources.counter;
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(bytes as u64);
        }
        let colour = match (program.meter, &mut resources.meter) {
            // As on BMv2, a packet that matches no entry has no colour, unless a controller gave
            // the default entry rates.
            (Some(kind), Some(meter)) if hit || meter.config().is_some() => {
                Some(meter.mark(kind.unit, bytes))
            }
            _ => None,
        };
        Lookup { hit, colour, choice }
    }
}

/// Puts a packet's field into its place in the key.
#[inline(always)]
fn pack(field: &KeyField, words: &[u64], lines: &[Line], key: &mut [u64]) {
    match field.source {
        KeySource::Word(word) => key[field.word] |= words[usize::from(word)] << field.shift,
        KeySource::Lines(line, count) => {
            let limbs = lines[usize::from(line)..].as_flattened();
            key[field.word..field.word + count].copy_from_slice(&limbs[..count]);
        }
    }
}
