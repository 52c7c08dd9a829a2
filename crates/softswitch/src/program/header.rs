//! Headers and their wire formats.

use super::machine::{LineIndex, Place, Word};

/// The wire format of a header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    /// Its length in bytes, without its field of variable length.
    pub(crate) bytes: usize,
    /// Its greatest length in bytes.
    pub(crate) most_bytes: usize,
    /// Words that it takes; the first is the validity.
    pub(crate) words: u16,
    /// Lines that it takes.
    pub(crate) lines: u16,
    /// Its fields up to 64 bits.
    pub(crate) narrows: Vec<NarrowField>,
    /// The same fields, in groups that begin and end at a byte boundary.
    pub(crate) groups: Vec<Group>,
    /// Its wider fields.
    pub(crate) wides: Vec<WideField>,
    /// Fields of neither kind: they are moved bit by bit.
    pub(crate) loose: Vec<LooseField>,
    /// Its field of variable length.
    pub(crate) variable: Option<VariableField>,
}

/// A field that begins anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseField {
    /// Its first bit, without the field of variable length.
    pub(crate) bit: u32,
    /// Its width.
    pub(crate) bits: u16,
    /// Its word or its first line, counted from the header's first.
    pub(crate) place: Place,
    /// True if the field comes behind the field of variable length.
    pub(crate) behind_variable: bool,
}

/// A field of variable length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariableField {
    /// Its first bit.
    pub(crate) bit: u32,
    /// Its first line, counted from the header's first.
    pub(crate) line: u16,
    /// Lines that it takes.
    pub(crate) lines: u16,
    /// The word of its length in bits, counted from the header's first.
    pub(crate) length: u16,
    /// Its greatest length in bytes.
    pub(crate) bytes: u16,
}

impl VariableField {
    /// Returns the number of bits that it has in a header; never more than there is room for.
    pub(crate) fn bits_of(&self, header: Header, words: &[u64]) -> usize {
        let bits = words[usize::from(header.word + self.length)];
        usize::try_from(bits).unwrap_or(usize::MAX).min(usize::from(self.bytes) * 8)
    }
}

/// A field of up to 64 bits, as it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NarrowField {
    /// A mask of as many ones as the field has bits.
    pub(crate) mask: u64,
    /// The byte that it begins in.
    pub(crate) offset: u16,
    /// Its word, counted from the header's first.
    pub(crate) word: u16,
    /// Number of bits behind it in the eight bytes that begin at `offset`.
    pub(crate) shift: u8,
}

/// Fields that share bytes, as they are written.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// First byte in the header.
    pub(crate) offset: usize,
    /// Its length, at most 8 bytes.
    pub(crate) bytes: usize,
    /// For each field its word, counted from the header's first, and the number of bits of the group
    /// behind it.
    pub(crate) parts: Vec<(u16, u8)>,
}

/// A field of whole bytes that is wider than a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideField {
    /// First byte in the header.
    pub(crate) offset: usize,
    /// Its length in bytes.
    pub(crate) bytes: usize,
    /// Its first line, counted from the header's first.
    pub(crate) line: u16,
}

/// One header of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Index of its format.
    pub(crate) format: u16,
    /// Its first word: its validity.
    pub(crate) word: Word,
    /// Its first line.
    pub(crate) line: LineIndex,
}

/// Headers of the same format, next to each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack {
    /// Index of its first header.
    pub(crate) first: u16,
    /// Number of headers.
    pub(crate) size: u16,
    /// The word with the number of headers in use.
    pub(crate) count: Word,
    /// Number of words from one header to the next.
    pub(crate) stride: u16,
}
