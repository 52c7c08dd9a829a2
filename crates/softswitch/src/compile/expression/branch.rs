//! Compiles conditions to jumps, without computing their truth values.

use super::{Expressions, Operands};
use crate::compile::emitter::Label;
use crate::compile::term::{Compare, Kind, Term};
use crate::error::LoadError;
use crate::program::{Op, Word};

impl Expressions<'_> {
    /// Emits a jump to `to` that is taken if the term's truth value is `sense`.
    ///
    /// An operand is not computed if the other operand decides the result.
    pub(in crate::compile) fn branch(
        &mut self,
        term: &Term,
        sense: bool,
        to: Label,
    ) -> Result<(), LoadError> {
        match &term.kind {
            Kind::Not(operand) => self.branch(operand, !sense, to),
            Kind::Both(left, right) => self.branch_both(left, right, true, sense, to),
            Kind::Either(left, right) => self.branch_both(left, right, false, sense, to),
            Kind::Choose(cond, yes, no) => {
                let (otherwise, end) = (self.out.label(), self.out.label());
                let known = self.mark();
                self.branch(cond, false, otherwise)?;
                self.branch(yes, sense, to)?;
                self.out.jump(end);
                self.forget(known);
                self.out.bind(otherwise);
                self.branch(no, sense, to)?;
                self.forget(known);
                self.out.bind(end);
                Ok(())
            }
            Kind::Compare(compare, left, right) => {
                self.branch_compare(term, *compare, left, right, sense, to)
            }
            _ => {
                let (a, b) = (self.word(term, 64)?, self.out.word_constant(0));
                self.jump_if_equal(a, b, !sense, to);
                Ok(())
            }
        }
    }

    /// Emits the branch for `left and right` if `both` is true, otherwise for `left or right`.
    fn branch_both(
        &mut self,
        left: &Term,
        right: &Term,
        both: bool,
        sense: bool,
        to: Label,
    ) -> Result<(), LoadError> {
        if both == sense {
            let skip = self.out.label();
            let known = self.mark();
            self.branch(left, !sense, skip)?;
            self.branch(right, sense, to)?;
            self.forget(known);
            self.out.bind(skip);
        } else {
            self.branch(left, sense, to)?;
            self.branch(right, sense, to)?;
        }
        Ok(())
    }

    fn branch_compare(
        &mut self,
        term: &Term,
        compare: Compare,
        left: &Term,
        right: &Term,
        sense: bool,
        to: Label,
    ) -> Result<(), LoadError> {
        match (self.operands(left, right)?, compare) {
            (Operands::Words { a, b, .. }, Compare::Equal) => self.jump_if_equal(a, b, sense, to),
            (Operands::Words { a, b, signed: false }, Compare::Less) => self.out.jump_with(to, |to| {
                if sense { Op::JumpLess { a, b, to } } else { Op::JumpNotLess { a, b, to } }
            }),
            _ => {
                let (a, b) = (self.word(term, 1)?, self.out.word_constant(0));
                self.jump_if_equal(a, b, !sense, to);
            }
        }
        Ok(())
    }

    pub(super) fn jump_if_equal(&mut self, a: Word, b: Word, sense: bool, to: Label) {
        self.out.jump_with(
            to,
            |to| if sense { Op::JumpEqual { a, b, to } } else { Op::JumpUnequal { a, b, to } },
        );
    }

    /// Returns the number of words and of lines that are computed already.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.known_words.len(), self.known_lines.len())
    }

    /// Forgets the terms that were computed since the mark, because another path has not computed
    /// them.
    pub(super) fn forget(&mut self, known: (usize, usize)) {
        self.known_words.truncate(known.0);
        self.known_lines.truncate(known.1);
    }
}
