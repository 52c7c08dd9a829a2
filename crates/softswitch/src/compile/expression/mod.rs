//! Turns terms into instructions.
//!
//! The lowest n bits of sums, products and bitwise operations depend only on the lowest n bits of
//! their operands, so they are computed only in the bits that are used. Comparisons and shifts to
//! the right need all bits of their operands.

mod branch;
mod lanes;
mod wide;

use super::emitter::Emitter;
use super::fault::unsupported;
use super::layout::{Slot, Storage};
use super::resolve::FieldRef;
use super::term::{Binary, Compare, Kind, Term, ValueRange};
use crate::error::LoadError;
use crate::json::number::Number;
use crate::program::{LINE_BITS, LineIndex, Op, Word, lines_for};

/// Compiles the expressions of one statement.
#[derive(Debug)]
pub(super) struct Expressions<'a> {
    pub(super) out: &'a mut Emitter,
    /// The place in the program, for messages.
    place: &'a str,
    /// Terms that are computed already: the term, its number of bits (words) or lines, and its place.
    known_words: Vec<(Term, u32, Word)>,
    known_lines: Vec<(Term, u16, LineIndex)>,
}

impl<'a> Expressions<'a> {
    /// Starts the expressions of one statement, and frees the intermediate results of the previous
    /// statement.
    pub(super) fn new(out: &'a mut Emitter, place: &'a str) -> Self {
        out.end_statement();
        Self { out, place, known_words: Vec::new(), known_lines: Vec::new() }
    }

    /// Assigns to a field.
    pub(super) fn assign(&mut self, slot: Slot, value: &Term) -> Result<(), LoadError> {
        if slot.length.is_some() {
            return Err(unsupported(self.place, "assigning a number to a field of variable length"));
        }
        match slot.place {
            Storage::Word(d) => {
                let a = self.word_into(value, slot.bits, Some(d))?;
                if a != d {
                    self.out.push(Op::Copy { d, a, cut: 0 });
                }
            }
            Storage::Lines(d) => {
                let n = lines_for(slot.bits);
                let a = self.lines_into(value, n, Some(d))?;
                let fits = !value.bound.signed && value.bound.bits <= slot.bits;
                if !fits && slot.bits != u32::from(n) * LINE_BITS {
                    let b = self.constant_lines(&Number::mask(slot.bits), n);
                    self.out.push(Op::WideAnd { d, a, b, n: n as u8 });
                } else if a != d {
                    self.out.push(Op::WideCopy { d, a, n: n as u8 });
                }
            }
        }
        Ok(())
    }

    /// Assigns to a field. If an index chooses the field and lies beyond the last one, it
    /// assigns nothing.
    pub(super) fn assign_to(&mut self, target: &FieldRef, value: &Term) -> Result<(), LoadError> {
        match target {
            FieldRef::One(slot) => self.assign(*slot, value),
            FieldRef::OneOf(index, slots) => {
                self.for_each_choice(index, slots, |expressions, slot| expressions.assign(*slot, value))
            }
        }
    }

    /// Emits code for each element that the index can choose. At run time, only the code of the
    /// chosen element runs.
    pub(super) fn for_each_choice<T>(
        &mut self,
        index: &Term,
        all: &[T],
        mut emit: impl FnMut(&mut Self, &T) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let index = self.word(index, 64)?;
        let end = self.out.label();
        for (position, one) in all.iter().enumerate() {
            let next = self.out.label();
            let known = self.mark();
            let position = self.out.word_constant(position as u64);
            self.jump_if_equal(index, position, false, next);
            emit(self, one)?;
            self.out.jump(end);
            self.forget(known);
            self.out.bind(next);
        }
        self.out.bind(end);
        Ok(())
    }

    /// Returns lines with the lowest `bits` bits of the term, and zeros above them.
    pub(super) fn whole_lines(&mut self, term: &Term, bits: u32) -> Result<LineIndex, LoadError> {
        let n = lines_for(bits);
        let line = self.lines(term, n)?;
        if (!term.bound.signed && term.bound.bits <= bits) || bits == u32::from(n) * LINE_BITS {
            return Ok(line);
        }
        let b = self.constant_lines(&Number::mask(bits), n);
        let d = self.out.temporary_lines(n);
        self.out.push(Op::WideAnd { d, a: line, b, n: n as u8 });
        Ok(d)
    }

    /// Returns a word with the lowest `bits` bits of the term, and zeros above them.
    pub(super) fn word(&mut self, term: &Term, bits: u32) -> Result<Word, LoadError> {
        self.word_into(term, bits, None)
    }

    fn word_into(&mut self, term: &Term, bits: u32, hint: Option<Word>) -> Result<Word, LoadError> {
        if let Kind::Const(number) = &term.kind {
            return Ok(self.out.word_constant(number.limb(0) & (u64::MAX >> (64 - bits))));
        }
        let fits = !term.bound.signed && term.bound.bits <= bits;
        if let (Kind::Field(Storage::Word(word)), true) = (&term.kind, fits) {
            return Ok(*word);
        }
        let known = self.known_words.iter().find(|(known, width, _)| *width == bits && known == term);
        if let Some((_, _, word)) = known {
            return Ok(*word);
        }
        let cut = if fits { 0 } else { (64 - bits) as u8 };
        let word = self.compute_word(term, cut, bits, hint)?;
        self.known_words.push((term.clone(), bits, word));
        Ok(word)
    }

    fn compute_word(
        &mut self,
        term: &Term,
        cut: u8,
        bits: u32,
        hint: Option<Word>,
    ) -> Result<Word, LoadError> {
        match &term.kind {
            Kind::Binary(op, left, right) => return self.binary_word(*op, left, right, cut, bits, hint),
            Kind::Compare(compare, left, right) => return self.compare(*compare, left, right, hint),
            _ => {}
        }
        let d = self.target(hint);
        let op = match &term.kind {
            Kind::Field(Storage::Lines(a)) => Op::Narrow { d, a: *a, cut },
            Kind::Last { first, stack } if cut == 0 => Op::Last { d, a: *first, stack: *stack },
            Kind::Lookahead { bits: all @ 65.., .. } => {
                Op::Narrow { d, a: self.lines(term, lines_for(*all))?, cut: (64 - bits) as u8 }
            }
            Kind::Lookahead { offset, bits } if cut == 0 => {
                Op::Lookahead { d, offset: *offset, bits: *bits as u8 }
            }
            Kind::Both(left, right) => Op::And { d, a: self.word(left, 1)?, b: self.word(right, 1)?, cut: 0 },
            Kind::Either(left, right) => {
                Op::Or { d, a: self.word(left, 1)?, b: self.word(right, 1)?, cut: 0 }
            }
            Kind::Not(operand) => Op::Equal { d, a: self.word(operand, 1)?, b: self.out.word_constant(0) },
            Kind::Choose(cond, yes, no) => {
                let (c, a, b) = (self.word(cond, 1)?, self.word(yes, bits)?, self.word(no, bits)?);
                self.choose(c, Op::Copy { d, a, cut: 0 }, Op::Copy { d, a: b, cut: 0 });
                return Ok(d);
            }
            // Computes the whole value, and cuts off its highest bits.
            _ => Op::Copy { d, a: self.word(term, 64)?, cut },
        };
        self.out.push(op);
        Ok(d)
    }

    /// Emits code that runs `yes` if the word is not 0, otherwise `no`.
    fn choose(&mut self, c: Word, yes: Op, no: Op) {
        let (otherwise, end) = (self.out.label(), self.out.label());
        let zero = self.out.word_constant(0);
        self.jump_if_equal(c, zero, true, otherwise);
        self.out.push(yes);
        self.out.jump(end);
        self.out.bind(otherwise);
        self.out.push(no);
        self.out.bind(end);
    }

    fn target(&mut self, hint: Option<Word>) -> Word {
        hint.unwrap_or_else(|| self.out.temporary_word())
    }

    fn binary_word(
        &mut self,
        op: Binary,
        left: &Term,
        right: &Term,
        cut: u8,
        bits: u32,
        hint: Option<Word>,
    ) -> Result<Word, LoadError> {
        if op == Binary::Shr {
            return self.shift_right(left, right, cut, bits, hint);
        }
        if op == Binary::And
            && let Some(word) = self.masked_word(left, right, cut, bits, hint)?
        {
            return Ok(word);
        }
        let a = self.word(left, 64)?;
        let b = if op == Binary::Shl { self.exact_word(right)? } else { self.word(right, 64)? };
        let d = self.target(hint);
        self.out.push(match op {
            Binary::Add => Op::Add { d, a, b, cut },
            Binary::Sub => Op::Sub { d, a, b, cut },
            Binary::Mul => Op::Mul { d, a, b, cut },
            Binary::And => Op::And { d, a, b, cut },
            Binary::Or => Op::Or { d, a, b, cut },
            Binary::Xor => Op::Xor { d, a, b, cut },
            Binary::Shl | Binary::Shr => Op::Shl { d, a, b, cut },
        });
        Ok(d)
    }

    /// Computes a masked term such as `x & 0xff` as x in 8 bits, or in fewer bits if the result
    /// uses fewer.
    fn masked_word(
        &mut self,
        left: &Term,
        right: &Term,
        cut: u8,
        bits: u32,
        hint: Option<Word>,
    ) -> Result<Option<Word>, LoadError> {
        let mask = |term: &Term| term.constant().and_then(Number::mask_bits);
        let (value, mask) = match (mask(left), mask(right)) {
            (_, Some(mask)) => (left, mask),
            (Some(mask), _) => (right, mask),
            _ => return Ok(None),
        };
        let looked_at = if cut == 0 { 64 } else { bits };
        let word = self.word_into(value, mask.min(looked_at), hint)?;
        Ok(Some(word))
    }

    fn shift_right(
        &mut self,
        left: &Term,
        right: &Term,
        cut: u8,
        bits: u32,
        hint: Option<Word>,
    ) -> Result<Word, LoadError> {
        if left.bound.signed && left.bound.bits > 64 {
            return self.word_into(&Term::shifted_right(left, right), bits, hint);
        }
        let b = self.exact_word(right)?;
        if left.bound.bits <= 64 {
            let a = self.word(left, 64)?;
            let d = self.target(hint);
            let signed = left.bound.signed;
            self.out.push(if signed { Op::Sar { d, a, b, cut } } else { Op::Shr { d, a, b, cut } });
            return Ok(d);
        }
        let n = self.lines_of(left.bound, left.bound.bits)?;
        let shifted = self.shift_lines_right(left, b, n, None)?;
        let d = self.target(hint);
        self.out.push(Op::Narrow { d, a: shifted, cut: (64 - bits) as u8 });
        Ok(d)
    }

    /// Returns a word that holds all of an unsigned term.
    fn exact_word(&mut self, term: &Term) -> Result<Word, LoadError> {
        if term.bound.signed || term.bound.bits > 64 {
            return Err(unsupported(
                self.place,
                "a shift by a number that is negative or wider than 64 bits",
            ));
        }
        self.word(term, 64)
    }

    fn compare(
        &mut self,
        compare: Compare,
        left: &Term,
        right: &Term,
        hint: Option<Word>,
    ) -> Result<Word, LoadError> {
        let operands = self.operands(left, right)?;
        let d = self.target(hint);
        self.out.push(match (operands, compare) {
            (Operands::Words { a, b, .. }, Compare::Equal) => Op::Equal { d, a, b },
            (Operands::Words { a, b, signed: false }, Compare::Less) => Op::Less { d, a, b },
            (Operands::Words { a, b, signed: true }, Compare::Less) => Op::LessSigned { d, a, b },
            (Operands::Lines { a, b, n, .. }, Compare::Equal) => Op::WideEqual { d, a, b, n },
            (Operands::Lines { a, b, n, signed: false }, Compare::Less) => Op::WideLess { d, a, b, n },
            (Operands::Lines { a, b, n, signed: true }, Compare::Less) => Op::WideLessSigned { d, a, b, n },
        });
        Ok(d)
    }

    /// Computes both operands with all their bits.
    fn operands(&mut self, left: &Term, right: &Term) -> Result<Operands, LoadError> {
        let signed = left.bound.signed || right.bound.signed;
        let bits = |bound: ValueRange| if signed { bound.signed_bits() } else { bound.bits };
        let needed = bits(left.bound).max(bits(right.bound));
        if needed <= 64 {
            return Ok(Operands::Words { a: self.word(left, 64)?, b: self.word(right, 64)?, signed });
        }
        let n = self.lines_of(left.bound, needed)?;
        let (a, b) = (self.lines(left, n)?, self.lines(right, n)?);
        Ok(Operands::Lines { a, b, n: n as u8, signed })
    }
}

/// Operands of a comparison.
enum Operands {
    Words { a: Word, b: Word, signed: bool },
    Lines { a: LineIndex, b: LineIndex, n: u8, signed: bool },
}
