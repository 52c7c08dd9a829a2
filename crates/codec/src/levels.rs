//! The decoder of codecs with a table, in which an index has the same value at every position.

use crate::bits::{check_indexes, unpack};
use crate::error::DecodeError;

/// The size of the table.
/// It has an entry for every 8-bit index, so that a lookup needs no bounds check.
const MOST: usize = 256;

/// Writes the values of the indexes to `out`.
///
/// # Errors
/// [`DecodeError`] if `levels` does not define an index, or if bits behind the last index are not 0.
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
