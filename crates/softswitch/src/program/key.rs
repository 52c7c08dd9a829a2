//! A table's key, field by field.

use super::machine::{LineIndex, Word};
use crate::translation::Translation;

/// One field of a table's key.
#[derive(Debug, Clone)]
pub(crate) struct KeyField {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its match kind.
    pub(crate) kind: MatchKind,
    /// Its width in bits.
    pub(crate) bits: u32,
    /// The representation of its values for controllers.
    pub(crate) translation: Translation,
    /// Where it comes from.
    pub(crate) source: KeySource,
    /// The word of the packed key that it is in, or begins in.
    pub(crate) word: usize,
    /// Number of bits below it in that word.
    pub(crate) shift: u32,
}

/// Where a key field comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeySource {
    /// A word.
    Word(Word),
    /// Lines: the first line, and the number of words that the field takes.
    Lines(LineIndex, usize),
}

/// Match kind of a field of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}
