//! Collects instructions, and hands out words and lines for constants and intermediate results.

use std::collections::HashMap;

use super::fault::too_many;
use crate::error::LoadError;
use crate::program::{LIMBS, Line, LineIndex, Op, Word};

/// More instructions than any program has.
const MAX_CODE: usize = 1 << 22;
/// Indices end here.
const MAX_INDEX: usize = 60_000;

/// A place in the code that jumps can name before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(u32);

/// Code that grows.
#[derive(Debug, Default)]
pub(super) struct Emitter {
    code: Vec<Op>,
    /// Where each label is; jumps hold label numbers until [`Emitter::finish`].
    labels: Vec<Option<u32>>,
    words: Vec<u64>,
    lines: Vec<Line>,
    word_constants: HashMap<u64, Word>,
    line_constants: HashMap<Vec<u64>, LineIndex>,
    word_pool: Pool<Word>,
    line_pool: Pool<(LineIndex, u16)>,
    overflow: bool,
}

/// Places for intermediate results; all are free again after a statement.
#[derive(Debug, Default)]
struct Pool<T> {
    places: Vec<T>,
    used: usize,
}

impl Emitter {
    /// An emitter behind `words` words and `lines` lines of fields and arguments.
    pub(super) fn new(words: usize, lines: usize) -> Self {
        Self { words: vec![0; words], lines: vec![Line::default(); lines], ..Self::default() }
    }

    /// Adds an instruction.
    pub(super) fn push(&mut self, op: Op) {
        if self.code.len() < MAX_CODE {
            self.code.push(op);
        } else {
            self.overflow = true;
        }
    }

    /// Index of the next instruction.
    pub(super) fn here(&self) -> u32 {
        self.code.len() as u32
    }

    /// A label that is not anywhere yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Puts a label in front of the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.here());
    }

    /// Is the label bound already? Then a jump to it goes back.
    pub(super) fn is_bound(&self, label: Label) -> bool {
        self.labels[label.0 as usize].is_some()
    }

    /// Adds a jump.
    pub(super) fn jump(&mut self, to: Label) {
        self.push(Op::Jump { to: to.0 });
    }

    /// Adds the jump that `jump` makes of the label's number.
    pub(super) fn jump_with(&mut self, to: Label, jump: impl FnOnce(u32) -> Op) {
        self.push(jump(to.0));
    }

    /// A word that holds a constant.
    pub(super) fn word_constant(&mut self, value: u64) -> Word {
        if let Some(word) = self.word_constants.get(&value) {
            return *word;
        }
        let word = self.new_word();
        self.words[usize::from(word)] = value;
        self.word_constants.insert(value, word);
        word
    }

    /// Lines that hold a constant.
    pub(super) fn line_constant(&mut self, limbs: Vec<u64>) -> LineIndex {
        if let Some(line) = self.line_constants.get(&limbs) {
            return *line;
        }
        let first = self.new_lines((limbs.len() / LIMBS) as u16);
        for (line, value) in self.lines.iter_mut().skip(first.into()).zip(limbs.as_chunks::<LIMBS>().0) {
            *line = *value;
        }
        self.line_constants.insert(limbs, first);
        first
    }

    /// A word for an intermediate result.
    pub(super) fn temporary_word(&mut self) -> Word {
        if self.word_pool.used == self.word_pool.places.len() {
            let word = self.new_word();
            self.word_pool.places.push(word);
        }
        self.word_pool.used += 1;
        self.word_pool.places[self.word_pool.used - 1]
    }

    /// Lines for an intermediate result.
    pub(super) fn temporary_lines(&mut self, count: u16) -> LineIndex {
        let pool = &self.line_pool;
        let free = pool.places[pool.used..].iter().position(|place| place.1 == count);
        let at = match free {
            Some(ahead) => pool.used + ahead,
            None => {
                let first = self.new_lines(count);
                self.line_pool.places.push((first, count));
                self.line_pool.places.len() - 1
            }
        };
        let pool = &mut self.line_pool;
        pool.places.swap(pool.used, at);
        pool.used += 1;
        pool.places[pool.used - 1].0
    }

    /// Frees all intermediate results.
    pub(super) fn end_statement(&mut self) {
        self.word_pool.used = 0;
        self.line_pool.used = 0;
    }

    /// A word that only one thing uses.
    pub(super) fn new_word(&mut self) -> Word {
        if self.words.len() < MAX_INDEX {
            self.words.push(0);
        } else {
            self.overflow = true;
        }
        (self.words.len() - 1) as Word
    }

    fn new_lines(&mut self, count: u16) -> LineIndex {
        let first = self.lines.len();
        if first < MAX_INDEX {
            self.lines.resize(first + usize::from(count), Line::default());
        } else {
            self.overflow = true;
        }
        first.min(MAX_INDEX) as LineIndex
    }

    /// Instructions from `from` on.
    pub(super) fn code_from(&self, from: u32) -> &[Op] {
        self.code.get(from as usize..).unwrap_or_default()
    }

    /// The code with all jumps in place, the words and the lines.
    pub(super) fn finish(self) -> Result<(Vec<Op>, Vec<u64>, Vec<Line>), LoadError> {
        if self.overflow {
            return Err(too_many("the program", "instructions"));
        }
        let place = |label: u32| self.labels.get(label as usize).copied().flatten();
        let code = self.code.iter().map(|op| {
            let mut op = *op;
            if let Some(to) = jump_target(&mut op) {
                // An unbound label would be the compiler's mistake: the run ends there.
                *to = place(*to).unwrap_or(u32::MAX);
            }
            op
        });
        let code: Vec<Op> = code.collect();
        let code = code.iter().map(|op| shortened(*op, &code)).collect();
        Ok((code, self.words, self.lines))
    }
}

/// Where a jump goes.
fn jump_target(op: &mut Op) -> Option<&mut u32> {
    match op {
        Op::Jump { to }
        | Op::JumpEqual { to, .. }
        | Op::JumpUnequal { to, .. }
        | Op::JumpLess { to, .. }
        | Op::JumpNotLess { to, .. }
        | Op::JumpHit { to, .. }
        | Op::JumpAction { to, .. } => Some(to),
        _ => None,
    }
}

/// The same jump without stops on the way.
fn shortened(mut op: Op, code: &[Op]) -> Op {
    let Some(to) = jump_target(&mut op) else { return op };
    // Nothing but jumps would go round for ever.
    for _ in 0..code.len() {
        match code.get(*to as usize) {
            Some(Op::Jump { to: further }) => *to = *further,
            _ => break,
        }
    }
    match op {
        Op::Jump { to } => match code.get(to as usize) {
            Some(end @ (Op::End | Op::Return)) => *end,
            _ => op,
        },
        _ => op,
    }
}
