//! The state that instructions read and write: the packet's fields, and data that is kept between
//! packets.

use std::time::Instant;

use super::Requests;
use crate::control::CounterValue;
use crate::lines::{Lines, clear};
use crate::meters::Meter;
use crate::packet_log::Journal;
use crate::processor::has_vectors;
use crate::profiles::Profile;
use crate::program::{MeterProgram, Program, TableProgram, WORDS, Word};
use crate::registers::Registers;
use crate::table::{Behaviour, Table};
use crate::value_sets::ValueSet;

/// The state that a switch keeps from packet to packet, except parts that instructions cannot
/// access.
#[derive(Debug)]
pub(crate) struct MachineState {
    /// All words that an index can name, so that no index must be checked. The system provides
    /// memory only for the words in use.
    pub(crate) words: Box<[u64; WORDS]>,
    pub(crate) lines: Lines,
    pub(crate) tables: Vec<Table>,
    pub(crate) counters: Vec<Vec<CounterValue>>,
    pub(crate) value_sets: Vec<ValueSet>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) meters: Vec<Vec<Meter>>,
    pub(crate) registers: Registers,
    /// The packet's requests that the switch carries out at the end of ingress or egress.
    pub(crate) requests: Requests,
    /// The time at which the state was created. The program's timestamps count from it.
    start: Instant,
    /// A buffer for the input of calculations.
    pub(super) bytes: Vec<u8>,
    /// True if the processor's wide vectors are used.
    pub(crate) vectors: bool,
    /// The packet log, if the packets are logged.
    pub(crate) journal: Option<Box<Journal>>,
}

/// A packet that is being processed.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    /// The frame as received.
    pub(crate) frame: &'a [u8],
    /// Number of bits of the frame that the parser has passed.
    pub(crate) cursor: usize,
    /// Number of jumps back that the parser has made.
    pub(super) visits: u32,
    /// Number of jumps back that actions have made.
    pub(super) rounds: u32,
    /// The packet's length in bytes, with the headers that actions have added and without those
    /// that they have removed.
    pub(crate) length: usize,
    /// The maximum length in bytes of the packet when it leaves.
    pub(crate) limit: usize,
}

impl<'a> Packet<'a> {
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self { frame, cursor: 0, visits: 0, rounds: 0, length: frame.len(), limit: usize::MAX }
    }

    /// Returns the bytes behind the last header that the parser extracted.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.frame.get(self.cursor / 8..).unwrap_or_default()
    }
}

impl MachineState {
    /// Creates the state of a program that has processed no packet.
    pub(crate) fn new(program: &Program) -> Self {
        // The zeroed memory comes directly from the system. The fallback only satisfies the type,
        // because the length is right.
        let zeros: Result<Box<[u64; WORDS]>, _> = vec![0; WORDS].into_boxed_slice().try_into();
        let mut words = zeros.unwrap_or_else(|_| Box::new([0; WORDS]));
        words[..program.words.len()].copy_from_slice(&program.words);
        Self {
            words,
            lines: Lines::from(program.lines.as_slice()),
            tables: program.tables.iter().map(Table::new).collect(),
            counters: program.counters.iter().map(|size| vec![CounterValue::default(); *size]).collect(),
            value_sets: program.value_sets.iter().map(ValueSet::new).collect(),
            profiles: program.profiles.iter().map(|_| Profile::default()).collect(),
            meters: program.meters.iter().map(meters).collect(),
            registers: Registers::new(&program.registers),
            requests: Requests::default(),
            start: Instant::now(),
            bytes: Vec::new(),
            vectors: has_vectors(),
            journal: None,
        }
    }

    /// Clears the fields and the validity of all headers.
    pub(crate) fn reset(&mut self, program: &Program) {
        self.words[..program.field_words].fill(0);
        clear(&mut self.lines[..program.metadata_lines]);
        self.requests = Requests::default();
    }

    /// Clears all metadata; headers stay.
    pub(crate) fn reset_metadata(&mut self, program: &Program) {
        self.words[..program.metadata_words].fill(0);
        clear(&mut self.lines[..program.metadata_lines]);
    }

    /// Changes the number of references of a behaviour to its action profile: `by` is 1 for a new
    /// one, -1 for a removed one.
    pub(crate) fn refer(&mut self, table: &TableProgram, behaviour: &Behaviour, by: isize) {
        if let Some(profile) = table.profile {
            self.profiles[profile].refer(behaviour, by);
        }
    }

    /// Returns the microseconds since the program was loaded.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    #[inline(always)]
    pub(crate) fn get(&self, word: Word) -> u64 {
        self.words[usize::from(word)]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, word: Word, value: u64) {
        self.words[usize::from(word)] = value;
    }

    /// Records an event in the journal, if the state has a journal.
    #[cold]
    pub(crate) fn tell(&mut self, tell: impl FnOnce(&mut Journal, &mut Self)) {
        // The journal reads the whole state, of which it is a part, so it is taken out meanwhile.
        if let Some(mut journal) = self.journal.take() {
            tell(&mut journal, self);
            self.journal = Some(journal);
        }
    }
}

fn meters(program: &MeterProgram) -> Vec<Meter> {
    (0..program.size).map(|_| Meter::default()).collect()
}
