//! Operands that an instruction can name: words, lines and other instructions.

/// Index of a word.
pub(crate) type Word = u16;

/// Number of words that an index can name.
pub(crate) const WORDS: usize = 1 << Word::BITS;

/// Index of a line, or of the first of several lines.
pub(crate) type LineIndex = u16;

/// Index of an instruction.
pub(crate) type CodeIndex = u16;

/// An index behind the last possible instruction. A jump to it ends the run.
pub(crate) const NOWHERE: CodeIndex = CodeIndex::MAX;

/// Limbs in a line.
pub(crate) const LIMBS: usize = 8;

/// Bits in a line.
pub(crate) const LINE_BITS: u32 = 512;

/// The number of bits of the widest value. It is enough for fields of 2048 bits and for their sums.
pub(crate) const MAX_BITS: u32 = 4096;

/// Words of the longest possible table key.
pub(crate) const MAX_KEY_WORDS: usize = 16;

/// A number of 512 bits, the lowest limb first.
pub(crate) type Line = [u64; LIMBS];

/// The place of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// A word.
    Word(Word),
    /// Several lines, of which this is the first.
    Lines(LineIndex),
}

/// Returns the number of lines that hold `bits`.
pub(crate) fn lines_for(bits: u32) -> u16 {
    bits.div_ceil(LINE_BITS) as u16
}
