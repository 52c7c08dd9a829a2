//! Collects instructions, and allocates words and lines for constants and intermediate results.

use std::collections::HashMap;

use super::fault::too_many;
use crate::error::LoadError;
use crate::program::{CodeIndex, LIMBS, Line, LineIndex, NOWHERE, Op, Word};

/// The number of instructions that an index can name.
const MAX_CODE: usize = NOWHERE as usize;
/// The maximum number of words, and of lines.
const MAX_INDEX: usize = 60_000;

/// A position in the code. Jumps can refer to it before the position is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Code under construction.
#[derive(Debug, Default)]
pub(super) struct Emitter {
    code: Vec<Op>,
    /// Jumps whose targets [`Emitter::finish`] sets: the instruction's index and its label.
    jumps: Vec<(usize, Label)>,
    /// The position of each label; `None` until it is bound.
    labels: Vec<Option<CodeIndex>>,
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

/// The finished code.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) code: Vec<Op>,
    /// The initial words for each packet: constants are set, all other words are 0.
    pub(super) words: Vec<u64>,
    /// The initial lines for each packet: constants are set, all other lines are 0.
    pub(super) lines: Vec<Line>,
}

impl Emitter {
    /// Creates an emitter that allocates words from index `words` on, and lines from index `lines`
    /// on.
    ///
    /// The words and lines before these indices hold fields and arguments.
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

    /// Turns the first of the last three instructions into an instruction that does the work of all
    /// three in one pass.
    ///
    /// The three instructions must read a register cell of `lines` lines, add its lanes to other
    /// lines, and write the sums back to the cell. No instruction moves, so that labels between
    /// them stay correct.
    pub(super) fn join_addition_to_register(&mut self, lines: u16) {
        let Some(
            [read, Op::LanesAdd { d, a, b, n }, Op::WideRegisterWrite { a: written, register, index, .. }],
        ) = self.code.last_chunk_mut()
        else {
            return;
        };
        if let Op::WideRegisterRead { d: held, register: from, index: at } = *read
            && (from, at) == (*register, *index)
            && d == written
            && u16::from(*n) == lines
            && held != *d
            && [[*d, held], [held, *d]].contains(&[*a, *b])
        {
            *read = Op::LanesAddToRegister { d: held, register: from, index: at, more: 0 };
        }
    }

    /// Returns the index of the next instruction.
    pub(super) fn here(&self) -> CodeIndex {
        self.code.len() as CodeIndex
    }

    /// Creates a label without a position.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label in front of the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.here());
    }

    /// Returns true if the label already has a position, so that a jump to it goes back.
    pub(super) fn is_bound(&self, label: Label) -> bool {
        self.labels[label.0].is_some()
    }

    /// Adds a jump.
    pub(super) fn jump(&mut self, to: Label) {
        self.jump_with(to, |to| Op::Jump { to });
    }

    /// Adds a jump to a label. `jump` makes the instruction from the position of the label.
    pub(super) fn jump_with(&mut self, to: Label, jump: impl FnOnce(CodeIndex) -> Op) {
        self.jumps.push((self.code.len(), to));
        self.push(jump(NOWHERE));
    }

    /// Returns a word that holds a constant.
    pub(super) fn word_constant(&mut self, value: u64) -> Word {
        if let Some(word) = self.word_constants.get(&value) {
            return *word;
        }
        let word = self.new_word();
        self.words[usize::from(word)] = value;
        self.word_constants.insert(value, word);
        word
    }

    /// Returns lines that hold a constant.
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

    /// Returns a word for an intermediate result.
    pub(super) fn temporary_word(&mut self) -> Word {
        if self.word_pool.used == self.word_pool.places.len() {
            let word = self.new_word();
            self.word_pool.places.push(word);
        }
        self.word_pool.used += 1;
        self.word_pool.places[self.word_pool.used - 1]
    }

    /// Returns lines for an intermediate result.
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

    /// Allocates a word that nothing else uses.
    pub(super) fn new_word(&mut self) -> Word {
        if self.words.len() < MAX_INDEX {
            self.words.push(0);
        } else {
            self.overflow = true;
        }
        (self.words.len() - 1) as Word
    }

    /// Allocates lines that nothing else uses.
    pub(super) fn new_lines(&mut self, count: u16) -> LineIndex {
        let first = self.lines.len();
        if first < MAX_INDEX {
            self.lines.resize(first + usize::from(count), Line::default());
        } else {
            self.overflow = true;
        }
        first.min(MAX_INDEX) as LineIndex
    }

    /// Returns the instructions from `from` on.
    pub(super) fn code_from(&self, from: CodeIndex) -> &[Op] {
        self.code.get(usize::from(from)..).unwrap_or_default()
    }

    /// Returns the code with all jumps in place.
    pub(super) fn finish(self) -> Result<Finished, LoadError> {
        if self.overflow {
            return Err(too_many("the program", "instructions"));
        }
        let mut code = self.code;
        for (at, label) in self.jumps {
            // An unbound label would be a bug of this compiler. A jump to it ends the run.
            let place = self.labels.get(label.0).copied().flatten().unwrap_or(NOWHERE);
            if let Some(to) = code.get_mut(at).and_then(jump_target) {
                *to = place;
            }
        }
        let code = code.iter().map(|op| shortened(*op, &code)).collect();
        Ok(Finished { code, words: self.words, lines: self.lines })
    }
}

/// Returns the target of a jump; `None` for other instructions.
fn jump_target(op: &mut Op) -> Option<&mut CodeIndex> {
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

/// Returns the jump with its final target, if its target is another jump.
fn shortened(mut op: Op, code: &[Op]) -> Op {
    let Some(to) = jump_target(&mut op) else { return op };
    // The loop is bounded, because jumps that lead to each other have no final target.
    for _ in 0..code.len() {
        match code.get(usize::from(*to)) {
            Some(Op::Jump { to: further }) => *to = *further,
            _ => break,
        }
    }
    match op {
        Op::Jump { to } => match code.get(usize::from(to)) {
            Some(end @ (Op::End | Op::Return)) => *end,
            _ => op,
        },
        _ => op,
    }
}
