//! Instructions read and write this state: the packet's fields, and what stays between packets.

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

/// State that a switch keeps from packet to packet, as far as instructions can access it.
#[derive(Debug)]
pub(crate) struct State {
    /// As many as an index can name, so that no index has to be checked.
    /// Memory is used for the first ones only.
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
    /// When it was made; programs count their time from then.
    start: Instant,
    /// Room for what calculations put together.
    pub(super) bytes: Vec<u8>,
    /// True if the processor's wide vectors are used.
    pub(crate) vectors: bool,
    /// The packet log, if the packets are logged.
    pub(crate) journal: Option<Box<Journal>>,
}

/// A packet that is being processed.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    /// The frame as it came.
    pub(crate) frame: &'a [u8],
    /// Number of its bits that the parser has passed.
    pub(crate) cursor: usize,
    /// The number of times that the parser has gone back.
    pub(super) visits: u32,
    /// The number of times that actions have gone back.
    pub(super) rounds: u32,
    /// Its length after the headers that actions have added and removed.
    pub(crate) length: usize,
    /// The most bytes that leave.
    pub(crate) limit: usize,
}

impl<'a> Packet<'a> {
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self { frame, cursor: 0, visits: 0, rounds: 0, length: frame.len(), limit: usize::MAX }
    }

    /// The bytes behind the last header that the parser extracted.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.frame.get(self.cursor / 8..).unwrap_or_default()
    }
}

impl State {
    /// The state of a program that has processed no packet.
    pub(crate) fn new(program: &Program) -> Self {
        // Zeroed memory straight from the system; the other arm satisfies the type.
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

    /// Notes that an entry of a table refers to something (1), or does no longer (-1).
    pub(crate) fn refer(&mut self, table: &TableProgram, behaviour: &Behaviour, by: isize) {
        if let Some(profile) = table.profile {
            self.profiles[profile].refer(behaviour, by);
        }
    }

    /// Microseconds since the program was loaded.
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
        // The journal reads all of the state and is itself a part of the state: so it is taken out meanwhile.
        if let Some(mut journal) = self.journal.take() {
            tell(&mut journal, self);
            self.journal = Some(journal);
        }
    }
}

fn meters(program: &MeterProgram) -> Vec<Meter> {
    (0..program.size).map(|_| Meter::default()).collect()
}
