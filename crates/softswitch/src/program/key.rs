//! A table's key, field by field.

use super::machine::{LineIndex, Word};
use crate::translation::Translation;

/// One field of a table's key.
#[derive(Debug, Clone)]
pub(crate) struct KeyField {
    /// The field's name, for messages.
    pub(crate) name: String,
    /// The field's match kind.
    pub(crate) kind: MatchKind,
    /// The field's width in bits.
    pub(crate) bits: u32,
    /// The representation of its values for controllers.
    pub(crate) translation: Translation,
    /// The place of the field's value.
    pub(crate) source: KeySource,
    /// The word of the packed key in which the field begins.
    pub(crate) word: usize,
    /// Number of bits below the field in that word.
    pub(crate) shift: u32,
}

/// The place of a key field's value.
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
