//! The inner loop: runs the instructions of a program on one packet.

mod checksum;
mod wide;
mod wire;

use std::cmp::Ordering;

use crate::control::CounterValue;
use crate::program::{DROP_PORT, Line, Op, Program, Word};
use crate::registers::Registers;
use crate::table::Table;

/// How often the parser may go back for one packet.
const MAX_VISITS: u32 = 1024;

/// What a switch remembers from packet to packet, as far as instructions can reach it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) words: Vec<u64>,
    pub(crate) lines: Vec<Line>,
    pub(crate) tables: Vec<Table>,
    pub(crate) counters: Vec<Vec<CounterValue>>,
    pub(crate) registers: Vec<Registers>,
}

/// A packet that is being processed.
#[derive(Debug, Clone)]
pub(crate) struct Packet<'a> {
    /// The frame as it came.
    pub(crate) frame: &'a [u8],
    /// Bits of it that the parser has passed.
    cursor: usize,
    visits: u32,
}

/// Bounds of one run: it goes on, or it is over.
type Flow = std::ops::ControlFlow<()>;

impl<'a> Packet<'a> {
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self { frame, cursor: 0, visits: 0 }
    }

    /// What the parser left.
    pub(crate) fn payload(&self) -> &'a [u8] {
        self.frame.get(self.cursor / 8..).unwrap_or_default()
    }
}

impl State {
    /// Clears the fields and the validity of all headers.
    pub(crate) fn reset(&mut self, program: &Program) {
        self.words[..program.field_words].fill(0);
        self.lines[..program.metadata_lines].as_flattened_mut().fill(0);
    }

    #[inline(always)]
    fn get(&self, word: Word) -> u64 {
        self.words[usize::from(word)]
    }

    #[inline(always)]
    fn set(&mut self, word: Word, value: u64) {
        self.words[usize::from(word)] = value;
    }

    #[inline(always)]
    fn put(&mut self, word: Word, value: u64, cut: u8) {
        self.set(word, value & (u64::MAX >> cut));
    }

    /// Runs code from `entry` to its end.
    pub(crate) fn run(&mut self, program: &Program, packet: &mut Packet<'_>, entry: u32) {
        let mut at = entry as usize;
        let mut return_to = usize::MAX;
        let (mut hit, mut ran) = (false, None);
        while let Some(op) = program.code.get(at) {
            at += 1;
            match *op {
                Op::End => return,
                Op::Return => at = return_to,
                Op::Copy { d, a, cut } => self.put(d, self.get(a), cut),
                Op::Add { d, a, b, cut } => self.put(d, self.get(a).wrapping_add(self.get(b)), cut),
                Op::Sub { d, a, b, cut } => self.put(d, self.get(a).wrapping_sub(self.get(b)), cut),
                Op::Mul { d, a, b, cut } => self.put(d, self.get(a).wrapping_mul(self.get(b)), cut),
                Op::And { d, a, b, cut } => self.put(d, self.get(a) & self.get(b), cut),
                Op::Or { d, a, b, cut } => self.put(d, self.get(a) | self.get(b), cut),
                Op::Xor { d, a, b, cut } => self.put(d, self.get(a) ^ self.get(b), cut),
                Op::Shl { d, a, b, cut } => self.put(d, shift(self.get(b), |by| self.get(a) << by), cut),
                Op::Shr { d, a, b, cut } => self.put(d, shift(self.get(b), |by| self.get(a) >> by), cut),
                Op::Sar { d, a, b, cut } => {
                    self.put(d, (self.get(a) as i64 >> self.get(b).min(63)) as u64, cut);
                }
                Op::Equal { d, a, b } => self.set(d, u64::from(self.get(a) == self.get(b))),
                Op::Less { d, a, b } => self.set(d, u64::from(self.get(a) < self.get(b))),
                Op::LessSigned { d, a, b } => {
                    self.set(d, u64::from((self.get(a) as i64) < self.get(b) as i64));
                }
                Op::Choose { d, c, a, b } => {
                    self.set(d, if self.get(c) != 0 { self.get(a) } else { self.get(b) });
                }
                Op::Jump { to } => at = to as usize,
                Op::JumpEqual { a, b, to } => {
                    if self.get(a) == self.get(b) {
                        at = to as usize;
                    }
                }
                Op::JumpUnequal { a, b, to } => {
                    if self.get(a) != self.get(b) {
                        at = to as usize;
                    }
                }
                Op::JumpLess { a, b, to } => {
                    if self.get(a) < self.get(b) {
                        at = to as usize;
                    }
                }
                Op::JumpNotLess { a, b, to } => {
                    if self.get(a) >= self.get(b) {
                        at = to as usize;
                    }
                }
                Op::Apply { table } => {
                    let found = self.apply(program, table, packet.frame.len());
                    hit = found.hit;
                    ran = found.action;
                    if let Some(code) = found.code {
                        return_to = at;
                        at = code as usize;
                    }
                }
                Op::JumpHit { to, .. } if hit => at = to as usize,
                Op::JumpAction { action, to, .. } if ran == Some(action) => at = to as usize,
                Op::JumpHit { .. } | Op::JumpAction { .. } => {}
                Op::Count { counter, index } => self.count(counter, index, packet.frame.len()),
                Op::RegisterRead { d, register, index } => {
                    if let Some(value) = self.registers[usize::from(register)].word(self.get(index)) {
                        self.set(d, value);
                    }
                }
                Op::RegisterWrite { a, register, index } => {
                    let (value, index) = (self.get(a), self.get(index));
                    self.registers[usize::from(register)].set_word(index, value);
                }
                Op::MarkToDrop => {
                    self.set(program.standard.egress_spec, DROP_PORT);
                    self.set(program.standard.mcast_grp, 0);
                }
                other => {
                    if self.run_rare(program, packet, other).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Instructions that take longer anyway, or are rare: kept out of the inner loop's registers.
    #[inline(never)]
    fn run_rare(&mut self, program: &Program, packet: &mut Packet<'_>, op: Op) -> Flow {
        match op {
            Op::Extract { .. }
            | Op::ExtractNext { .. }
            | Op::Visit
            | Op::Advance { .. }
            | Op::Lookahead { .. }
            | Op::Fail { .. } => return self.run_parser(program, packet, op),
            Op::Last { d, a, count, stride } => {
                let index = self.get(count).saturating_sub(1) as usize;
                let value = self.words.get(usize::from(a) + index * usize::from(stride)).copied();
                self.set(d, value.unwrap_or(0));
            }
            Op::SetValid { header } => self.set_valid(program, header),
            Op::SetInvalid { header } => self.set(program.headers[usize::from(header)].word, 0),
            Op::CopyHeader { d, a } => self.copy_header(program, d, a),
            Op::Push { stack, by } => self.push(program, stack, by),
            Op::Pop { stack, by } => self.pop(program, stack, by),
            Op::VerifyChecksum { checksum } => {
                let checksum = &program.checksums[usize::from(checksum)];
                if self.get(checksum.target) != checksum::compute(checksum, &self.words, &self.lines) {
                    self.set(program.standard.checksum_error, 1);
                }
            }
            Op::UpdateChecksum { checksum } => {
                let checksum = &program.checksums[usize::from(checksum)];
                let sum = checksum::compute(checksum, &self.words, &self.lines);
                self.set(checksum.target, sum);
            }
            other => self.run_wide(other),
        }
        Flow::Continue(())
    }

    fn run_wide(&mut self, op: Op) {
        let lines = self.lines.as_mut_slice();
        let at = usize::from;
        match op {
            Op::WideCopy { d, a, n } => wide::copy(lines, at(d), at(a), n.into()),
            Op::WideAdd { d, a, b, n } => wide::add(lines, at(d), at(a), at(b), n.into()),
            Op::WideSub { d, a, b, n } => wide::sub(lines, at(d), at(a), at(b), n.into()),
            Op::WideAnd { d, a, b, n } => wide::bitwise(lines, at(d), at(a), at(b), n.into(), |x, y| x & y),
            Op::WideOr { d, a, b, n } => wide::bitwise(lines, at(d), at(a), at(b), n.into(), |x, y| x | y),
            Op::WideXor { d, a, b, n } => wide::bitwise(lines, at(d), at(a), at(b), n.into(), |x, y| x ^ y),
            Op::WideShl { d, a, b, n } => wide::shl(lines, at(d), at(a), self.words[at(b)], n.into()),
            Op::WideShr { d, a, b, n } => wide::shr(lines, at(d), at(a), self.words[at(b)], n.into()),
            Op::WideEqual { d, a, b, n } => {
                let equal = wide::compare(lines, at(a), at(b), n.into()) == Ordering::Equal;
                self.set(d, u64::from(equal));
            }
            Op::WideLess { d, a, b, n } => {
                let less = wide::compare(lines, at(a), at(b), n.into()) == Ordering::Less;
                self.set(d, u64::from(less));
            }
            Op::WideLessSigned { d, a, b, n } => {
                let n = n.into();
                let signs = (wide::is_negative(lines, at(a), n), wide::is_negative(lines, at(b), n));
                let less = match signs {
                    (true, false) => true,
                    (false, true) => false,
                    _ => wide::compare(lines, at(a), at(b), n) == Ordering::Less,
                };
                self.set(d, u64::from(less));
            }
            Op::WideChoose { d, c, a, b, n } => {
                let chosen = if self.words[at(c)] != 0 { a } else { b };
                wide::copy(lines, at(d), at(chosen), n.into());
            }
            Op::Narrow { d, a, cut } => self.put(d, self.lines[at(a)][0], cut),
            Op::Widen { d, a, n } => {
                lines[at(d)..at(d) + usize::from(n)].as_flattened_mut().fill(0);
                lines[at(d)][0] = self.words[at(a)];
            }
            Op::Extend { d, a, from, n } => {
                wide::copy(lines, at(d), at(a), from.into());
                lines[at(d) + usize::from(from)..at(d) + usize::from(n)].as_flattened_mut().fill(0);
            }
            Op::WideRegisterRead { d, register, index } => {
                if let Some(cell) = self.registers[at(register)].lines(self.words[at(index)]) {
                    self.lines[at(d)..at(d) + cell.len()].copy_from_slice(cell);
                }
            }
            Op::WideRegisterWrite { a, register, index } => {
                if let Some(cell) = self.registers[at(register)].lines_mut(self.words[at(index)]) {
                    cell.copy_from_slice(&self.lines[at(a)..at(a) + cell.len()]);
                }
            }
            // All others were dealt with by the callers.
            _ => {}
        }
    }

    fn run_parser(&mut self, program: &Program, packet: &mut Packet<'_>, op: Op) -> Flow {
        let standard = &program.standard;
        let error = match op {
            Op::Extract { header } => self.extract(program, packet, header),
            Op::ExtractNext { stack } => self.extract_next(program, packet, stack),
            Op::Visit => {
                packet.visits += 1;
                if packet.visits > MAX_VISITS { Err(standard.parser_timeout) } else { Ok(()) }
            }
            Op::Advance { bits } => {
                let cursor = packet.cursor.saturating_add(self.get(bits) as usize);
                // BMv2, too, cannot begin a header inside a byte.
                if cursor > packet.frame.len() * 8 || !cursor.is_multiple_of(8) {
                    Err(standard.packet_too_short)
                } else {
                    packet.cursor = cursor;
                    Ok(())
                }
            }
            Op::Lookahead { d, offset, bits } => match look_ahead(packet, offset, bits) {
                Some(value) => {
                    self.set(d, value);
                    Ok(())
                }
                None => Err(standard.packet_too_short),
            },
            Op::Fail { error } => Err(self.get(error)),
            _ => Ok(()),
        };
        match error {
            Ok(()) => Flow::Continue(()),
            Err(error) => {
                self.set(standard.parser_error, error);
                Flow::Break(())
            }
        }
    }

    fn extract(&mut self, program: &Program, packet: &mut Packet<'_>, header: u16) -> Result<(), u64> {
        let header = program.headers[usize::from(header)];
        let format = &program.formats[usize::from(header.format)];
        let begin = packet.cursor / 8;
        let bytes = packet.frame.get(begin..begin + format.bytes).ok_or(program.standard.packet_too_short)?;
        wire::extract(format, header, bytes, &mut self.words, &mut self.lines);
        packet.cursor += format.bytes * 8;
        Ok(())
    }

    fn extract_next(&mut self, program: &Program, packet: &mut Packet<'_>, stack: u16) -> Result<(), u64> {
        let stack = program.stacks[usize::from(stack)];
        let count = self.get(stack.count);
        if count >= u64::from(stack.size) {
            return Err(program.standard.stack_out_of_bounds);
        }
        self.extract(program, packet, stack.first + count as u16)?;
        self.set(stack.count, count + 1);
        Ok(())
    }

    /// A header that becomes valid is all zeros: nothing of an earlier packet shows.
    fn set_valid(&mut self, program: &Program, header: u16) {
        let header = program.headers[usize::from(header)];
        if self.get(header.word) == 0 {
            self.clear_header(program, header);
            self.set(header.word, 1);
        }
    }

    fn clear_header(&mut self, program: &Program, header: crate::program::Header) {
        let format = &program.formats[usize::from(header.format)];
        let (word, line) = (usize::from(header.word), usize::from(header.line));
        self.words[word..word + usize::from(format.words)].fill(0);
        self.lines[line..line + usize::from(format.lines)].as_flattened_mut().fill(0);
    }

    fn copy_header(&mut self, program: &Program, d: u16, a: u16) {
        let (d, a) = (program.headers[usize::from(d)], program.headers[usize::from(a)]);
        let format = &program.formats[usize::from(d.format)];
        let (word, line) = (usize::from(a.word), usize::from(a.line));
        self.words.copy_within(word..word + usize::from(format.words), d.word.into());
        self.lines.copy_within(line..line + usize::from(format.lines), d.line.into());
    }

    /// Moves a stack's headers towards its end; the first ones become invalid.
    fn push(&mut self, program: &Program, stack: u16, by: u16) {
        let stack = program.stacks[usize::from(stack)];
        let by = by.min(stack.size);
        for index in (by..stack.size).rev() {
            self.copy_header(program, stack.first + index, stack.first + index - by);
        }
        for index in 0..by {
            self.clear_header(program, program.headers[usize::from(stack.first + index)]);
        }
        let count = self.get(stack.count) + u64::from(by);
        self.set(stack.count, count.min(stack.size.into()));
    }

    /// Moves a stack's headers towards its beginning; the last ones become invalid.
    fn pop(&mut self, program: &Program, stack: u16, by: u16) {
        let stack = program.stacks[usize::from(stack)];
        let by = by.min(stack.size);
        for index in by..stack.size {
            self.copy_header(program, stack.first + index - by, stack.first + index);
        }
        for index in stack.size - by..stack.size {
            self.clear_header(program, program.headers[usize::from(stack.first + index)]);
        }
        self.set(stack.count, self.get(stack.count).saturating_sub(by.into()));
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

    /// Looks a table up and puts the arguments of the action where it expects them.
    fn apply(&mut self, program: &Program, table: u16, bytes: usize) -> Applied {
        let index = usize::from(table);
        let Self { tables, words, lines, .. } = self;
        let found = tables[index].look_up(&program.tables[index], words, lines, bytes);
        let Some(bound) = found.action else {
            return Applied { hit: found.hit, action: None, code: None };
        };
        let arguments = program.arguments;
        let (word, line) = (usize::from(arguments.word), usize::from(arguments.line));
        words[word..word + bound.words.len()].copy_from_slice(&bound.words);
        lines[line..line + bound.lines.len()].copy_from_slice(&bound.lines);
        Applied { hit: found.hit, action: Some(bound.action), code: Some(bound.code) }
    }

    /// Length of the frame that the deparser would write.
    pub(crate) fn deparsed_len(&self, program: &Program, packet: &Packet<'_>) -> usize {
        let headers = program.deparser.iter().map(|header| program.headers[usize::from(*header)]);
        let valid = headers.filter(|header| self.get(header.word) != 0);
        let bytes = valid.map(|header| program.formats[usize::from(header.format)].bytes);
        bytes.sum::<usize>() + packet.payload().len()
    }

    /// Writes the frame to `out`, which has the right length.
    pub(crate) fn deparse(&self, program: &Program, packet: &Packet<'_>, mut out: &mut [u8]) {
        for header in &program.deparser {
            let header = program.headers[usize::from(*header)];
            if self.get(header.word) == 0 {
                continue;
            }
            let format = &program.formats[usize::from(header.format)];
            let (bytes, rest) = out.split_at_mut(format.bytes);
            wire::emit(format, header, &self.words, &self.lines, bytes);
            out = rest;
        }
        out.copy_from_slice(packet.payload());
    }
}

/// What looking a table up has come to.
struct Applied {
    hit: bool,
    action: Option<u16>,
    code: Option<u32>,
}

/// A shift by 64 or more leaves nothing.
#[inline(always)]
fn shift(by: u64, shift: impl Fn(u64) -> u64) -> u64 {
    if by < 64 { shift(by) } else { 0 }
}

/// `bits` bits of the packet, `offset` bits ahead.
fn look_ahead(packet: &Packet<'_>, offset: u32, bits: u8) -> Option<u64> {
    let begin = packet.cursor.checked_add(offset as usize)?;
    let end = begin + usize::from(bits);
    let bytes = packet.frame.get(begin / 8..end.div_ceil(8))?;
    let value = bytes.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
    let value = value >> (end.next_multiple_of(8) - end);
    Some(value as u64 & (u64::MAX >> (64 - bits)))
}
