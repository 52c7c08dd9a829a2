//! Headers and their wire formats.

use super::machine::{LineIndex, Place, Word};

/// The wire format of a header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    /// The header's length in bytes, without its field of variable length.
    pub(crate) bytes: usize,
    /// The header's maximum length in bytes.
    pub(crate) most_bytes: usize,
    /// Number of words of the header; the first word is the validity.
    pub(crate) words: u16,
    /// Number of lines of the header.
    pub(crate) lines: u16,
    /// The fields of up to 64 bits, for reading.
    pub(crate) narrows: Vec<NarrowField>,
    /// The fields of up to 64 bits, for writing, in groups that begin and end at a byte boundary.
    pub(crate) groups: Vec<FieldGroup>,
    /// The wider fields.
    pub(crate) wides: Vec<WideField>,
    /// Fields of neither kind, which are moved bit by bit.
    pub(crate) loose: Vec<LooseField>,
    /// The field of variable length, if the header has one.
    pub(crate) variable: Option<VariableField>,
}

/// A field that may begin at any bit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseField {
    /// The field's first bit in a header whose field of variable length is empty.
    pub(crate) bit: u32,
    /// The field's width in bits.
    pub(crate) bits: u16,
    /// The field's word or first line, relative to the header's first.
    pub(crate) place: Place,
    /// True if the field comes behind the field of variable length.
    pub(crate) behind_variable: bool,
}

/// A field of variable length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariableField {
    /// The field's first bit in the header.
    pub(crate) bit: u32,
    /// The field's first line, relative to the header's first.
    pub(crate) line: u16,
    /// Number of lines of the field.
    pub(crate) lines: u16,
    /// The word with the field's length in bits, relative to the header's first.
    pub(crate) length: u16,
    /// The field's maximum length in bytes.
    pub(crate) bytes: u16,
}

impl VariableField {
    /// Returns the number of bits of the field in a header, limited to the maximum length.
    pub(crate) fn bits_of(&self, header: Header, words: &[u64]) -> usize {
        let bits = words[usize::from(header.word + self.length)];
        usize::try_from(bits).unwrap_or(usize::MAX).min(usize::from(self.bytes) * 8)
    }
}

/// A field of up to 64 bits, described for reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NarrowField {
    /// A mask with a one for each bit of the field.
    pub(crate) mask: u64,
    /// The byte in which the field begins.
    pub(crate) offset: u16,
    /// The field's word, relative to the header's first.
    pub(crate) word: u16,
    /// Number of bits behind the field in the eight bytes that begin at `offset`.
    pub(crate) shift: u8,
}

/// Fields that share bytes, described for writing.
#[derive(Debug, Clone)]
pub(crate) struct FieldGroup {
    /// The group's first byte in the header.
    pub(crate) offset: usize,
    /// The group's length in bytes, at most 8.
    pub(crate) bytes: usize,
    /// For each field, its word relative to the header's first, and the number of bits of the group
    /// behind the field.
    pub(crate) parts: Vec<(u16, u8)>,
}

/// A field of whole bytes that is wider than a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideField {
    /// The field's first byte in the header.
    pub(crate) offset: usize,
    /// The field's length in bytes.
    pub(crate) bytes: usize,
    /// The field's first line, relative to the header's first.
    pub(crate) line: u16,
}

/// One header of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Index of the header's format.
    pub(crate) format: u16,
    /// The header's first word, which is its validity.
    pub(crate) word: Word,
    /// The header's first line.
    pub(crate) line: LineIndex,
}

/// Headers of the same format, next to each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack {
    /// Index of the stack's first header.
    pub(crate) first: u16,
    /// Number of headers.
    pub(crate) size: u16,
    /// The word with the number of headers in use.
    pub(crate) count: Word,
    /// Number of words from one header to the next.
    pub(crate) stride: u16,
}
