//! Terms of more than 64 bits.

use super::{Expressions, lanes};
use crate::compile::fault::unsupported;
use crate::compile::layout::Storage;
use crate::compile::term::{Binary, Kind, Term, UNBOUNDED, ValueRange};
use crate::error::LoadError;
use crate::json::number::Number;
use crate::program::{LIMBS, LINE_BITS, LineIndex, MAX_BITS, Op, Word, lines_for};

impl Expressions<'_> {
    /// Returns the number of lines that hold `bits` bits.
    pub(super) fn lines_of(&self, bound: ValueRange, bits: u32) -> Result<u16, LoadError> {
        if bound.bits == UNBOUNDED || bits > MAX_BITS {
            let what =
                format!("a value of more than {MAX_BITS} bits that is compared or shifted to the right");
            return Err(unsupported(self.place, what));
        }
        Ok(lines_for(bits))
    }

    /// Returns lines with the lowest 512 · `n` bits of the term.
    pub(super) fn lines(&mut self, term: &Term, n: u16) -> Result<LineIndex, LoadError> {
        self.lines_into(term, n, None)
    }

    pub(super) fn lines_into(
        &mut self,
        term: &Term,
        n: u16,
        hint: Option<LineIndex>,
    ) -> Result<LineIndex, LoadError> {
        if let Kind::Const(number) = &term.kind {
            return Ok(self.constant_lines(number, n));
        }
        if let Kind::Field(Storage::Lines(line)) = term.kind
            && lines_for(term.bound.bits) >= n
        {
            return Ok(line);
        }
        if let Some((_, _, line)) =
            self.known_lines.iter().find(|(known, size, _)| *size == n && known == term)
        {
            return Ok(*line);
        }
        let line = if !term.bound.signed && term.bound.bits <= 64 {
            let a = self.word(term, 64)?;
            let d = self.wide_target(hint, n);
            self.out.push(Op::Widen { d, a, n: n as u8 });
            d
        } else if !term.bound.signed && lines_for(term.bound.bits.min(MAX_BITS)) < n {
            let from = lines_for(term.bound.bits);
            let a = self.lines(term, from)?;
            let d = self.wide_target(hint, n);
            self.out.push(Op::Extend { d, a, from: from as u8, n: n as u8 });
            d
        } else {
            self.compute_lines(term, n, hint)?
        };
        self.known_lines.push((term.clone(), n, line));
        Ok(line)
    }

    pub(super) fn compute_lines(
        &mut self,
        term: &Term,
        n: u16,
        hint: Option<LineIndex>,
    ) -> Result<LineIndex, LoadError> {
        match &term.kind {
            Kind::Binary(op, left, right) => self.binary_lines(*op, left, right, n, hint),
            Kind::Choose(cond, yes, no) => {
                let (c, a, b) = (self.word(cond, 1)?, self.lines(yes, n)?, self.lines(no, n)?);
                let d = self.wide_target(hint, n);
                let n = n as u8;
                self.choose(c, Op::WideCopy { d, a, n }, Op::WideCopy { d, a: b, n });
                Ok(d)
            }
            Kind::Lookahead { offset, bits } => {
                // The instruction reads all bits, although the caller may need only the lowest
                // lines.
                let all = lines_for(*bits);
                let d = if all > n { self.out.temporary_lines(all) } else { self.wide_target(hint, n) };
                self.out.push(Op::WideLookahead { d, offset: *offset, bits: *bits as u16 });
                Ok(d)
            }
            // `lines_into` has widened narrower terms before.
            _ => Err(unsupported(self.place, "a wide expression of this form")),
        }
    }

    pub(super) fn binary_lines(
        &mut self,
        op: Binary,
        left: &Term,
        right: &Term,
        n: u16,
        hint: Option<LineIndex>,
    ) -> Result<LineIndex, LoadError> {
        if op == Binary::And
            && let Some(line) = self.masked_lines(left, right, n, hint)?
        {
            return Ok(line);
        }
        if op == Binary::Shr && left.bound.signed {
            return self.lines_into(&Term::shifted_right(left, right), n, hint);
        }
        if op == Binary::Shr {
            let b = self.exact_word(right)?;
            let exact = self.lines_of(left.bound, left.bound.bits)?.max(n);
            // The lowest lines come first, so the result begins with the lines that the caller
            // needs.
            return self.shift_lines_right(left, b, exact, hint.filter(|_| exact == n));
        }
        if op == Binary::Mul {
            let (a, b) = (self.lines(left, n)?, self.lines(right, n)?);
            let d = self.out.temporary_lines(n);
            self.out.push(Op::WideMul { d, a, b, n: n as u8 });
            return Ok(d);
        }
        if op == Binary::Xor
            && let Some([left, right]) = lanes::addends(left, right)
        {
            let (a, b) = (self.lines(left, n)?, self.lines(right, n)?);
            let d = self.wide_target(hint, n);
            self.out.push(Op::LanesAdd { d, a, b, n: n as u8 });
            return Ok(d);
        }
        let a = self.lines(left, n)?;
        if op == Binary::Shl {
            let b = self.exact_word(right)?;
            let d = self.wide_target(hint, n);
            self.out.push(Op::WideShl { d, a, b, n: n as u8 });
            return Ok(d);
        }
        let b = self.lines(right, n)?;
        let d = self.wide_target(hint, n);
        let n = n as u8;
        self.out.push(match op {
            Binary::Add => Op::WideAdd { d, a, b, n },
            Binary::Sub => Op::WideSub { d, a, b, n },
            Binary::And => Op::WideAnd { d, a, b, n },
            Binary::Or => Op::WideOr { d, a, b, n },
            _ => Op::WideXor { d, a, b, n },
        });
        Ok(d)
    }

    /// Computes `x & mask` if the mask keeps all bits of `x`, or all bits that `n` lines hold;
    /// returns `None` for other masks.
    pub(super) fn masked_lines(
        &mut self,
        left: &Term,
        right: &Term,
        n: u16,
        hint: Option<LineIndex>,
    ) -> Result<Option<LineIndex>, LoadError> {
        let keeps = |value: &Term, mask: &Term| {
            let bits = mask.constant().and_then(Number::mask_bits).unwrap_or(0);
            bits >= u32::from(n) * LINE_BITS || (!value.bound.signed && value.bound.bits <= bits)
        };
        if keeps(left, right) {
            return self.lines_into(left, n, hint).map(Some);
        }
        if keeps(right, left) {
            return self.lines_into(right, n, hint).map(Some);
        }
        Ok(None)
    }

    pub(super) fn shift_lines_right(
        &mut self,
        left: &Term,
        b: Word,
        n: u16,
        hint: Option<LineIndex>,
    ) -> Result<LineIndex, LoadError> {
        let a = self.lines(left, n)?;
        let d = self.wide_target(hint, n);
        self.out.push(Op::WideShr { d, a, b, n: n as u8 });
        Ok(d)
    }

    pub(super) fn wide_target(&mut self, hint: Option<LineIndex>, n: u16) -> LineIndex {
        hint.unwrap_or_else(|| self.out.temporary_lines(n))
    }

    pub(super) fn constant_lines(&mut self, number: &Number, n: u16) -> LineIndex {
        let limbs = (0..usize::from(n) * LIMBS).map(|index| number.limb(index)).collect();
        self.out.line_constant(limbs)
    }
}
