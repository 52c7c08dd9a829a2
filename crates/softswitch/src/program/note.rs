//! Names and steps of a program for the packet log. Only a program that is loaded for logging has
//! them.

use std::fmt;

use serde::Serialize;

use super::machine::{Place, Word};

/// The names and steps of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    /// The steps, at the indices that [`Op::Note`](super::Op::Note) names.
    pub(crate) notes: Vec<Note>,
    /// Headers and structs of metadata, in the order of the program's headers.
    pub(crate) headers: Vec<HeaderNames>,
    /// The names and numbers of parser errors.
    pub(crate) errors: Vec<(String, u64)>,
}

/// A step of the program, logged when the packet reaches it.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    /// A state of the parser begins.
    State { name: String },
    /// A condition was evaluated.
    Condition { condition: String, holds: bool, source: Option<Source> },
    /// A table is looked up.
    Table {
        table: u16,
        /// The parameter names of each action of the table.
        parameters: Vec<Vec<String>>,
        source: Option<Source>,
    },
    /// Statements outside of a table's actions begin.
    Statements { statements: String, source: Option<Source> },
    /// A counter counts.
    Count { counter: String, index: Word },
    /// A register is read.
    Read { name: String, register: u16, index: Word, bits: u32 },
    /// A register is written.
    Write { name: String, index: Word, value: Place, bits: u32 },
    /// A checksum is verified.
    Verify { checksum: u16, field: String, field_bits: u32 },
}

/// The names of a header.
#[derive(Debug, Clone)]
pub(crate) struct HeaderNames {
    pub(crate) name: String,
    /// The validity word of the header; `None` for metadata, which is always valid.
    pub(crate) valid: Option<Word>,
    pub(crate) fields: Vec<FieldName>,
}

/// A field of a header.
#[derive(Debug, Clone)]
pub(crate) struct FieldName {
    pub(crate) name: String,
    pub(crate) place: Place,
    /// The field's width in bits; the maximum width if its length varies.
    pub(crate) bits: u32,
    /// The word that holds the number of bits of a field of variable length.
    pub(crate) length: Option<Word>,
}

/// A position in the P4 source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) line: u64,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
