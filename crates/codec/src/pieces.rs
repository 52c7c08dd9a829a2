//! The division of arrays among cores.

/// The number of values that one core handles at a time.
/// They take 32 KiB of f32, so they are still in the second-level cache for a second pass. The number is a multiple of
/// 8, so a piece of indexes of any width ends at a byte boundary.
pub(crate) const PIECE: usize = 1 << 13;

/// The number of values that are converted to indexes, or back, in one step of packing.
/// They fit into the first-level cache. The number is a multiple of 8.
pub(crate) const BLOCK: usize = 256;

const _: () = assert!(PIECE.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(8));
