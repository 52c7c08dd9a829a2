//! The packing of indexes of 0 to 8 bits.

use rayon::prelude::*;

use crate::error::DecodeError;
use crate::pieces::{BLOCK, PIECE};

/// Returns the number of bits that distinguish `count` items.
pub(crate) fn width(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Returns the number of bytes that `values` indexes of `width` bits fill.
pub(crate) fn packed_len(values: usize, width: u32) -> usize {
    // This order of operations does not overflow on a 32-bit machine.
    let width = width as usize;
    values / 8 * width + (values % 8 * width).div_ceil(8)
}

/// Appends the indexes of `values` values to `out`, using all cores.
///
/// `fill` gets a position and a slice, and writes the indexes from that position on. Each must be below 2^`width`.
/// `fill` may also count items in a `T`; `merge` adds two counts.
pub(crate) fn pack<T: Default + Send>(
    out: &mut Vec<u8>,
    values: usize,
    width: u32,
    fill: impl Fn(usize, &mut [u8], &mut T) + Sync,
    merge: impl Fn(T, T) -> T + Sync + Send,
) -> T {
    let start = out.len();
    if width == 0 {
        // No bytes are written, but `fill` must still count. Pieces are as long as with 8 bits.
        let mut nothing = vec![0; values];
        return pack_pieces(&mut nothing, values, 8, fill, merge);
    }
    out.resize(start + packed_len(values, width), 0);
    pack_pieces(&mut out[start..], values, width, fill, merge)
}

fn pack_pieces<T: Default + Send>(
    packed: &mut [u8],
    values: usize,
    width: u32,
    fill: impl Fn(usize, &mut [u8], &mut T) + Sync,
    merge: impl Fn(T, T) -> T + Sync + Send,
) -> T {
    let bytes = |values| packed_len(values, width);
    let piece = |(piece, packed): (usize, &mut [u8])| {
        let mut counted = T::default();
        let mut indexes = [0; BLOCK];
        for (block, packed) in packed.chunks_mut(bytes(BLOCK)).enumerate() {
            let start = piece * PIECE + block * BLOCK;
            let indexes = &mut indexes[..BLOCK.min(values - start)];
            fill(start, indexes, &mut counted);
            pack_block(indexes, width, packed);
        }
        counted
    };
    packed.par_chunks_mut(bytes(PIECE)).enumerate().map(piece).reduce(T::default, merge)
}

/// Calls `read` for each block of `out`, on all cores.
/// `read` gets a position, the indexes from that position on, and the slice of `out` for their values.
///
/// # Errors
/// The errors of `read`; [`DecodeError::Field`] if bits behind the last index are not 0.
pub(crate) fn unpack(
    packed: &[u8],
    width: u32,
    out: &mut [f32],
    read: impl Fn(usize, &[u8], &mut [f32]) -> Result<(), DecodeError> + Sync,
) -> Result<(), DecodeError> {
    check_padding(packed, width, out.len())?;
    out.par_chunks_mut(PIECE).enumerate().try_for_each(|(piece, out)| {
        let packed = &packed[packed_len(piece * PIECE, width)..];
        let mut indexes = [0; BLOCK];
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let indexes = &mut indexes[..out.len()];
            unpack_block(&packed[packed_len(block * BLOCK, width)..], width, indexes);
            read(piece * PIECE + block * BLOCK, indexes, out)?;
        }
        Ok(())
    })
}

/// Checks that the bits behind the last index are 0.
pub(crate) fn check_padding(packed: &[u8], width: u32, values: usize) -> Result<(), DecodeError> {
    let used = (values % 8 * width as usize) % 8;
    match packed.last() {
        Some(last) if used > 0 && last >> used != 0 => Err(DecodeError::Field {
            field: "the last byte",
            value: format!("{last:#010b}"),
            rule: "bits that belong to no value have to be 0",
        }),
        _ => Ok(()),
    }
}

/// Checks that all indexes are below `defined`.
/// The error names the position of the first index that is not.
pub(crate) fn check_indexes(start: usize, indexes: &[u8], defined: usize) -> Result<(), DecodeError> {
    // The largest index is checked first, because this loop has no early exit and compiles to vector instructions.
    let largest = indexes.iter().copied().fold(0, u8::max);
    if usize::from(largest) < defined {
        return Ok(());
    }
    let at = indexes.iter().position(|index| usize::from(*index) >= defined).unwrap_or_default();
    Err(DecodeError::Index { position: start + at, index: indexes[at], defined })
}

fn pack_block(indexes: &[u8], width: u32, packed: &mut [u8]) {
    match width {
        1 => pack_groups::<1>(indexes, packed),
        2 => pack_groups::<2>(indexes, packed),
        3 => pack_groups::<3>(indexes, packed),
        4 => pack_groups::<4>(indexes, packed),
        5 => pack_groups::<5>(indexes, packed),
        6 => pack_groups::<6>(indexes, packed),
        7 => pack_groups::<7>(indexes, packed),
        _ => packed.copy_from_slice(indexes),
    }
}

/// Packs groups of eight indexes of `W` bits into `W` bytes each.
fn pack_groups<const W: usize>(indexes: &[u8], packed: &mut [u8]) {
    let group = |indexes: &[u8; 8]| {
        let bits = indexes.iter().rev().fold(0_u64, |bits, index| (bits << W) | u64::from(*index));
        bits.to_le_bytes()
    };
    let (whole, rest) = indexes.as_chunks::<8>();
    let (bytes, rest_bytes) = packed.split_at_mut(whole.len() * W);
    for (indexes, bytes) in whole.iter().zip(bytes.as_chunks_mut::<W>().0) {
        bytes.copy_from_slice(&group(indexes)[..W]);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    rest_bytes.copy_from_slice(&group(&last)[..rest_bytes.len()]);
}

fn unpack_block(packed: &[u8], width: u32, indexes: &mut [u8]) {
    match width {
        0 => indexes.fill(0),
        1 => unpack_groups::<1>(packed, indexes),
        2 => unpack_groups::<2>(packed, indexes),
        3 => unpack_groups::<3>(packed, indexes),
        4 => unpack_groups::<4>(packed, indexes),
        5 => unpack_groups::<5>(packed, indexes),
        6 => unpack_groups::<6>(packed, indexes),
        7 => unpack_groups::<7>(packed, indexes),
        _ => indexes.copy_from_slice(&packed[..indexes.len()]),
    }
}

fn unpack_groups<const W: usize>(packed: &[u8], indexes: &mut [u8]) {
    let group = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(word);
        std::array::from_fn::<u8, 8, _>(|at| ((bits >> (at * W)) & ((1 << W) - 1)) as u8)
    };
    let (whole, rest) = indexes.as_chunks_mut::<8>();
    let (bytes, rest_bytes) = packed.split_at(whole.len() * W);
    for (indexes, bytes) in whole.iter_mut().zip(bytes.as_chunks::<W>().0) {
        *indexes = group(bytes);
    }
    let last = group(&rest_bytes[..packed_len(rest.len(), W as u32)]);
    rest.copy_from_slice(&last[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn widths() {
        for (count, bits) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (256, 8)] {
            assert_eq!(width(count), bits, "{count}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back(width in 0u32..=8, values in vec(any::<u8>(), 0..700), pieces in 0usize..2) {
            let mask = ((1_u32 << width) - 1) as u8;
            let long = std::iter::repeat_n(&values, if pieces == 0 { 1 } else { 120 });
            let indexes: Vec<u8> = long.flatten().map(|value| value & mask).collect();
            let mut packed = vec![0xAA];
            let fill = |start: usize, out: &mut [u8], sum: &mut u64| {
                out.copy_from_slice(&indexes[start..start + out.len()]);
                *sum += out.iter().map(|index| u64::from(*index)).sum::<u64>();
            };
            let sum = pack(&mut packed, indexes.len(), width, fill, |a, b| a + b);
            prop_assert_eq!(sum, indexes.iter().map(|index| u64::from(*index)).sum::<u64>());
            prop_assert_eq!(packed.len(), 1 + packed_len(indexes.len(), width));
            let mut out = vec![f32::NAN; indexes.len()];
            unpack(&packed[1..], width, &mut out, |start, got, out| {
                assert_eq!(got, &indexes[start..start + got.len()]);
                out.iter_mut().zip(got).for_each(|(out, index)| *out = f32::from(*index));
                Ok(())
            })
            .unwrap();
            prop_assert!(out.iter().zip(&indexes).all(|(out, index)| *out == f32::from(*index)));
        }
    }

    #[test]
    fn the_first_index_is_in_the_lowest_bits() {
        let mut packed = Vec::new();
        let fill = |_: usize, out: &mut [u8], _: &mut ()| out.copy_from_slice(&[1, 2, 3, 0, 2]);
        pack(&mut packed, 5, 2, fill, |_, _| ());
        assert_eq!(packed, [0b00_11_10_01, 0b10]);
    }
}
