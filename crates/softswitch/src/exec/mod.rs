//! The inner loop: runs the instructions of a program on one packet.

mod bits;
mod calculation;
mod checksum;
mod headers;
mod message;
mod peek;
mod requests;
mod state;
mod wide;
mod wire;

use calculation::Fields;
pub(crate) use requests::Requests;
pub(crate) use state::{MachineState, Packet};

use crate::program::{Calculation, CodeIndex, DROP_PORT, Op, Program, Word};
use crate::table::Choice;

/// The maximum number of jumps back in the parser for one packet.
const MAX_VISITS: u32 = 1024;
/// The maximum number of jumps back in actions for one packet.
const MAX_ROUNDS: u32 = 1 << 16;

/// The result of an instruction: the run continues or ends.
type Flow = std::ops::ControlFlow<()>;

impl MachineState {
    #[inline(always)]
    fn put(&mut self, word: Word, value: u64, cut: u8) {
        self.set(word, value & (u64::MAX >> (cut & 63)));
    }

    /// Runs code like [`MachineState::interpret`], with the processor's wide vectors if it has them.
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

    /// Runs instructions that are slow or rare.
    ///
    /// They are in a separate function, so that the inner loop needs fewer of the processor's
    /// registers.
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
                // As on BMv2, an index behind the end changes nothing.
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
        // As on BMv2, an index behind the end changes nothing.
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

    /// Looks up a table, and puts the action's arguments into the words and lines where the action
    /// reads them.
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

/// Applies a shift; the result is 0 for a shift by 64 or more.
#[inline(always)]
fn shift(by: u64, shift: impl Fn(u64) -> u64) -> u64 {
    if by < 64 { shift(by) } else { 0 }
}

#[cfg(test)]
mod tests;
