//! The division of arrays among cores.

/// Values that one core handles at a time: 32 KiB of f32, so that they are still in the second-level
/// cache for a second pass. A multiple of 8, so that a piece of indexes of any width ends at a byte boundary.
pub(crate) const PIECE: usize = 1 << 13;

/// Values that are turned into indexes, or back, between two steps of packing: few enough for the
/// first-level cache, and a multiple of 8.
pub(crate) const BLOCK: usize = 256;

const _: () = assert!(PIECE.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(8));
