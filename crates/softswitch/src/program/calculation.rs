//! Hashes and checksums.

use super::machine::{LineIndex, Place, Word};

/// A checksum.
#[derive(Debug, Clone)]
pub(crate) struct Checksum {
    /// The word of the field that holds the checksum.
    pub(crate) target: Word,
    /// A mask with a one for each bit of the field.
    pub(crate) mask: u64,
    /// Index of the calculation that computes the checksum.
    pub(crate) calculation: u16,
    /// A faster way to compute the same result, if there is one.
    pub(crate) sum: Option<FieldSum>,
}

/// An Internet checksum over fields of headers that are valid.
#[derive(Debug, Clone)]
pub(crate) struct FieldSum {
    /// The inputs of the checksum.
    pub(crate) parts: Vec<ChecksumPart>,
    /// The validity words of the inputs' headers.
    pub(crate) headers: Vec<Word>,
}

/// A hash or a checksum over a string of bits.
#[derive(Debug, Clone)]
pub(crate) struct Calculation {
    pub(crate) algorithm: Algorithm,
    /// The inputs, concatenated in this order.
    pub(crate) inputs: Vec<CalculationInput>,
    /// True if the bytes that the parser did not extract follow the inputs.
    pub(crate) payload: bool,
}

/// Algorithm of a calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// The complement of the ones' complement sum.
    Internet,
    Crc32,
    Crc16,
    CrcCcitt,
    Xor16,
    /// The first eight bytes of the input.
    Identity,
    Random,
}

/// An input of a calculation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CalculationInput {
    /// A field or constant.
    Field {
        place: Place,
        /// The width in bits; the maximum width if the length varies.
        bits: u32,
        /// The word with the field's length in bits, if the length varies.
        length: Option<Word>,
        /// The validity word of the field's header. The field of an invalid header is left out.
        valid: Option<Word>,
    },
    /// A whole header, if it is valid.
    Header(u16),
}

/// One input of a checksum, and the shift to its position in its 16-bit word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChecksumPart {
    /// A field or constant of up to 64 bits.
    Word(Word, u8),
    /// A wider field or constant: its first line, its number of lines, and the shift.
    Lines(LineIndex, u8, u8),
}
