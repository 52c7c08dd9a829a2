//! How arrays are cut for several cores.

/// Values that one core works on at a time: 32 KiB of f32, so that what a second look needs is still in
/// the second-level cache. A multiple of 8, so that a piece of indexes of any width ends with a byte.
pub(crate) const PIECE: usize = 1 << 13;

/// Values that are turned into indexes, or back, between two steps of packing: few enough for the first-level
/// cache, and a multiple of 8.
pub(crate) const BLOCK: usize = 256;

const _: () = assert!(PIECE.is_multiple_of(BLOCK) && BLOCK.is_multiple_of(8));
