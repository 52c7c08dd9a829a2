//! The decoder of codecs with a table: each index stands for the same value at any position.

use crate::bits::{check_indexes, unpack};
use crate::error::DecodeError;

/// Room for the values of all 8-bit indexes, so that a lookup needs no check.
const MOST: usize = 256;

/// Writes the values of the indexes to `out`.
///
/// # Errors
/// An index that `levels` does not define, or bits behind the last index that are not 0.
pub(crate) fn look_up(packed: &[u8], width: u32, levels: &[f32], out: &mut [f32]) -> Result<(), DecodeError> {
    let mut table = [0.0; MOST];
    table.iter_mut().zip(levels).for_each(|(entry, level)| *entry = *level);
    unpack(packed, width, out, |start, indexes, out| {
        check_indexes(start, indexes, levels.len())?;
        for (out, index) in out.iter_mut().zip(indexes) {
            *out = table[usize::from(*index)];
        }
        Ok(())
    })
}
