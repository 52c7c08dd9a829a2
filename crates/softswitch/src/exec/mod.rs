//! The inner loop: runs the instructions of a program on one packet.

mod bits;
mod calculation;
mod checksum;
mod headers;
mod message;
mod noted;
mod requests;
mod wide;
mod wire;

use std::time::Instant;

use calculation::Fields;
pub(crate) use requests::Requests;

use crate::control::CounterValue;
use crate::lines::{Lines, clear};
use crate::meters::Meter;
use crate::packet_log::Journal;
use crate::processor::has_vectors;
use crate::profiles::Profile;
use crate::program::{
    Calculation, CodeIndex, DROP_PORT, Line, MeterProgram, Op, Program, TableProgram, WORDS, Word,
};
use crate::registers::Registers;
use crate::table::{Behaviour, Choice, Table};
use crate::value_sets::ValueSet;

/// The number of times that the parser may go back for one packet.
const MAX_VISITS: u32 = 1024;
/// The number of times that actions may go back for one packet.
const MAX_ROUNDS: u32 = 1 << 16;

/// What a switch remembers from packet to packet, as far as instructions can access it.
#[derive(Debug)]
pub(crate) struct State {
    /// As many as an index can name, so that no index has to be checked. Memory is used for the first ones only.
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
    bytes: Vec<u8>,
    /// Whether to use the processor's wide vectors.
    pub(crate) vectors: bool,
    /// The packet log, if the packets are logged.
    pub(crate) journal: Option<Box<Journal>>,
}

/// A packet that is being processed.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    /// The frame as it came.
    pub(crate) frame: &'a [u8],
    /// How many of its bits the parser has passed.
    pub(crate) cursor: usize,
    visits: u32,
    rounds: u32,
    /// Its length after the headers that actions have added and removed.
    pub(crate) length: usize,
    /// The most bytes that leave.
    pub(crate) limit: usize,
}

/// Whether a run goes on or is over.
type Flow = std::ops::ControlFlow<()>;

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

    #[inline(always)]
    fn put(&mut self, word: Word, value: u64, cut: u8) {
        self.set(word, value & (u64::MAX >> (cut & 63)));
    }

    /// [`State::interpret`], with the processor's wide vectors if it has them.
    #[allow(unsafe_code)]
    pub(crate) fn run(&mut self, program: &Program, packet: &mut Packet<'_>, entry: CodeIndex) {
        #[cfg(target_arch = "x86_64")]
        if self.vectors {
            // SAFETY: `vectors` is true only if the processor has these features.
            return unsafe { self.interpret_with_vectors(program, packet, entry) };
        }
        self.interpret(program, packet, entry);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
    fn interpret_with_vectors(&mut self, program: &Program, packet: &mut Packet<'_>, entry: CodeIndex) {
        self.interpret(program, packet, entry);
    }

    /// Runs code from `entry` to its end.
    #[inline(always)]
    fn interpret(&mut self, program: &Program, packet: &mut Packet<'_>, entry: CodeIndex) {
        let mut at = usize::from(entry);
        let mut return_to = usize::MAX;
        let (mut hit, mut ran) = (false, None);
        while let Some(op) = program.code.get(at) {
            at += 1;
            match *op {
                Op::End => return,
                Op::Return => at = return_to,
                Op::Jump { to } => at = usize::from(to),
                Op::JumpEqual { a, b, to } => jump(&mut at, to, self.get(a) == self.get(b)),
                Op::JumpUnequal { a, b, to } => jump(&mut at, to, self.get(a) != self.get(b)),
                Op::JumpLess { a, b, to } => jump(&mut at, to, self.get(a) < self.get(b)),
                Op::JumpNotLess { a, b, to } => jump(&mut at, to, self.get(a) >= self.get(b)),
                Op::JumpHit { to } => jump(&mut at, to, hit),
                Op::JumpAction { action, to } => jump(&mut at, to, ran == Some(action)),
                Op::Apply { table } => {
                    let found = self.apply(program, table, packet.frame.len());
                    (hit, ran) = (found.hit, found.action);
                    if let Some(code) = found.code {
                        return_to = at;
                        at = usize::from(code);
                    }
                }
                Op::Extract { header } => {
                    if self.extract(program, packet, header).is_break() {
                        return;
                    }
                }
                Op::Copy { d, a, cut } => self.put(d, self.get(a), cut),
                Op::Add { d, a, b, cut } => self.put(d, self.get(a).wrapping_add(self.get(b)), cut),
                Op::Sub { d, a, b, cut } => self.put(d, self.get(a).wrapping_sub(self.get(b)), cut),
                Op::And { d, a, b, cut } => self.put(d, self.get(a) & self.get(b), cut),
                Op::Or { d, a, b, cut } => self.put(d, self.get(a) | self.get(b), cut),
                Op::Xor { d, a, b, cut } => self.put(d, self.get(a) ^ self.get(b), cut),
                Op::Shl { d, a, b, cut } => self.put(d, shift(self.get(b), |by| self.get(a) << by), cut),
                Op::Shr { d, a, b, cut } => self.put(d, shift(self.get(b), |by| self.get(a) >> by), cut),
                Op::Count { counter, index } => self.count(counter, index, packet.frame.len()),
                Op::RegisterRead { d, register, index } => {
                    if let Some(value) = self.registers.word(register.into(), self.get(index)) {
                        self.set(d, value);
                    }
                }
                Op::RegisterWrite { a, register, index } => {
                    let (value, index) = (self.get(a), self.get(index));
                    self.registers.set_word(register.into(), index, value);
                }
                Op::WideAdd { d, a, b, n } => wide::add(&mut self.lines, d, a, b, n),
                Op::WideSub { d, a, b, n } => wide::sub(&mut self.lines, d, a, b, n),
                Op::WideAnd { d, a, b, n } => wide::and(&mut self.lines, d, a, b, n),
                Op::WideOr { d, a, b, n } => wide::or(&mut self.lines, d, a, b, n),
                Op::WideXor { d, a, b, n } => wide::xor(&mut self.lines, d, a, b, n),
                Op::LanesAdd { d, a, b, n } => wide::add_lanes(&mut self.lines, d, a, b, n),
                Op::LanesAddToRegister { d, register, index, more } => {
                    if let Some(Op::LanesAdd { d: sum, n, .. }) = program.code.get(at)
                        && let Some(cells) = self.registers.neighbours_mut(
                            register.into(),
                            more.into(),
                            self.words[usize::from(index)],
                        )
                    {
                        wide::add_lanes_to(cells, &mut self.lines, d, *sum, *n);
                        at += 2 + 3 * usize::from(more);
                    }
                }
                Op::WideRegisterRead { d, register, index } => self.read_lines(d, register, index),
                Op::WideRegisterWrite { a, register, index, more } => {
                    let index = self.get(index);
                    if let Some(cells) = self.registers.neighbours_mut(register.into(), more.into(), index) {
                        let a = usize::from(a);
                        cells.copy_from_slice(&self.lines[a..a + cells.len()]);
                        at += usize::from(more);
                    }
                }
                Op::MarkToDrop => {
                    self.set(program.standard.egress_spec, DROP_PORT);
                    self.set(program.standard.mcast_grp, 0);
                }
                rare => {
                    if self.run_rare(program, packet, rare).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Runs instructions that take longer anyway, or are rare: they are kept out of the inner loop's registers.
    #[inline(never)]
    fn run_rare(&mut self, program: &Program, packet: &mut Packet<'_>, op: Op) -> Flow {
        match op {
            Op::Mul { d, a, b, cut } => self.put(d, self.get(a).wrapping_mul(self.get(b)), cut),
            Op::Sar { d, a, b, cut } => {
                self.put(d, (self.get(a).cast_signed() >> self.get(b).min(63)).cast_unsigned(), cut);
            }
            Op::Equal { d, a, b } => self.set(d, u64::from(self.get(a) == self.get(b))),
            Op::Less { d, a, b } => self.set(d, u64::from(self.get(a) < self.get(b))),
            Op::LessSigned { d, a, b } => {
                self.set(d, u64::from(self.get(a).cast_signed() < self.get(b).cast_signed()));
            }
            Op::Last { d, a, stack } => {
                let stack = program.stacks[usize::from(stack)];
                let index = self.get(stack.count).saturating_sub(1) as usize;
                let value = self.words.get(usize::from(a) + index * usize::from(stack.stride)).copied();
                self.set(d, value.unwrap_or(0));
            }
            Op::Narrow { d, a, cut } => self.put(d, self.lines[usize::from(a)][0], cut),
            Op::Widen { d, a, n } => wide::widen(&mut self.lines, d, self.words[usize::from(a)], n),
            Op::WideCopy { d, a, n } => wide::copy(&mut self.lines, d, a, n),
            Op::Extend { d, a, from, n } => wide::extend(&mut self.lines, d, a, from, n),
            Op::WideShl { d, a, b, n } => wide::shl(&mut self.lines, d, a, self.words[usize::from(b)], n),
            Op::WideShr { d, a, b, n } => wide::shr(&mut self.lines, d, a, self.words[usize::from(b)], n),
            Op::WideEqual { d, a, b, n } => {
                self.set(d, u64::from(wide::compare(&self.lines, a, b, n).is_eq()));
            }
            Op::WideLess { d, a, b, n } => {
                self.set(d, u64::from(wide::compare(&self.lines, a, b, n).is_lt()));
            }
            Op::WideLessSigned { d, a, b, n } => {
                self.set(d, u64::from(wide::compare_signed(&self.lines, a, b, n).is_lt()));
            }
            Op::VerifyChecksum { checksum } => {
                let checksum = &program.checksums[usize::from(checksum)];
                if self.get(checksum.target) != self.checksum(program, packet, checksum) {
                    self.set(program.standard.checksum_error, 1);
                }
            }
            Op::UpdateChecksum { checksum } => {
                let checksum = &program.checksums[usize::from(checksum)];
                let sum = self.checksum(program, packet, checksum);
                self.set(checksum.target, sum);
            }
            Op::Meter { d, meter, index, cut } => {
                let unit = program.meters[usize::from(meter)].unit;
                let index = usize::try_from(self.get(index)).unwrap_or(usize::MAX);
                // As on BMv2 an index behind the end changes nothing.
                if let Some(cell) = self.meters[usize::from(meter)].get_mut(index) {
                    let colour = cell.mark(unit, packet.frame.len());
                    self.put(d, colour, cut);
                }
            }
            Op::Clone { session, list } => self.requests.clone_to(self.get(session), list),
            Op::Resubmit { list } => self.requests.resubmit = Some(list),
            Op::InSet { d, set, key } => {
                let found = self.value_sets[usize::from(set)].contains(&[self.get(key)]);
                self.set(d, u64::from(found));
            }
            Op::WideInSet { d, set, key, n } => {
                let lines = &self.lines[usize::from(key)..][..usize::from(n)];
                let found = self.value_sets[usize::from(set)].contains(lines.as_flattened());
                self.set(d, u64::from(found));
            }
            Op::Digest { list } => self.requests.digest = Some(list),
            Op::Recirculate { list } => self.requests.recirculate = Some(list),
            Op::WideMul { d, a, b, n } => wide::mul(&mut self.lines, d, a, b, n),
            Op::Calculate { d, calculation } => {
                let result = self.calculate(program, packet, calculation);
                self.set(d, result);
            }
            Op::Remainder { d, a, b } => self.set(d, self.get(a).checked_rem(self.get(b)).unwrap_or(0)),
            Op::Random { d, low, high } => {
                let number = rand::random_range(self.get(low)..=self.get(high));
                self.set(d, number);
            }
            Op::Truncate { bytes } => packet.limit = self.get(bytes) as usize,
            Op::Say { message } => self.say(&program.messages[usize::from(message)]),
            Op::Note { note } => self.note(program, packet, note),
            header => return self.run_on_headers(program, packet, header),
        }
        Flow::Continue(())
    }

    #[inline(always)]
    fn count(&mut self, counter: u16, index: Word, bytes: usize) {
        let index = self.get(index);
        // BMv2 ignores an index behind the end, too.
        if let Some(cell) = self.counters[usize::from(counter)].get_mut(index as usize) {
            cell.packets = cell.packets.wrapping_add(1);
            cell.bytes = cell.bytes.wrapping_add(bytes as u64);
        }
    }

    fn read_lines(&mut self, d: u16, register: u16, index: Word) {
        let (d, index) = (usize::from(d), self.get(index));
        if let Some(cell) = self.registers.lines(register.into(), index) {
            self.lines[d..d + cell.len()].copy_from_slice(cell);
        }
    }

    /// Looks a table up and puts the action's arguments where the action expects them.
    fn apply(&mut self, program: &Program, table: u16, bytes: usize) -> Applied {
        let index = usize::from(table);
        let Self { tables, profiles, words, lines, bytes: room, .. } = self;
        let found = tables[index].look_up(&program.tables[index], &**words, lines, bytes);
        if let (Some(meter), Some(colour)) = (program.tables[index].meter, found.colour) {
            words[usize::from(meter.target)] = colour;
        }
        let bound = match found.choice {
            Some(Choice::Action(bound)) => Some(bound),
            Some(Choice::Profile(behaviour)) => {
                let profile = program.tables[index].profile;
                profile.and_then(|at| {
                    let fields = Fields::of(program, words, lines);
                    let hash = |selector: &Calculation| fields.calculate(selector, &[], room);
                    profiles[at].choose(behaviour, &program.profiles[at], index, hash)
                })
            }
            None => None,
        };
        let Some(bound) = bound else {
            return Applied { hit: found.hit, action: None, code: None };
        };
        let arguments = program.arguments;
        let (word, line) = (usize::from(arguments.word), usize::from(arguments.line));
        words[word..word + bound.words.len()].copy_from_slice(&bound.words);
        lines[line..line + bound.lines.len()].copy_from_slice(&bound.lines);
        Applied { hit: found.hit, action: Some(bound.action), code: Some(bound.code) }
    }
}

fn meters(program: &MeterProgram) -> Vec<Meter> {
    (0..program.size).map(|_| Meter::default()).collect()
}

/// The result of a table lookup.
struct Applied {
    hit: bool,
    action: Option<u16>,
    code: Option<CodeIndex>,
}

#[inline(always)]
fn jump(at: &mut usize, to: CodeIndex, take: bool) {
    if take {
        *at = usize::from(to);
    }
}

/// A shift; by 64 or more the result is 0.
#[inline(always)]
fn shift(by: u64, shift: impl Fn(u64) -> u64) -> u64 {
    if by < 64 { shift(by) } else { 0 }
}

#[cfg(test)]
mod tests;
