//! Moves fields that begin and end inside bytes, and fields of variable length.

use crate::program::{Format, Header, LIMBS, Line, LooseField, Place};

/// Reads `count` bits (up to 64) of `bytes` from bit `begin` on; bits behind the end are 0.
pub(super) fn read(bytes: &[u8], begin: usize, count: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    let end = begin + count;
    let covering = (begin / 8..end.div_ceil(8)).map(|at| bytes.get(at).copied().unwrap_or(0));
    let value = covering.fold(0_u128, |value, byte| value << 8 | u128::from(byte));
    (value >> (end.next_multiple_of(8) - end)) as u64 & (u64::MAX >> (64 - count))
}

/// Writes the lowest `count` bits (up to 64) of a number to `bytes` from bit `begin` on.
pub(super) fn write(bytes: &mut [u8], begin: usize, count: usize, value: u64) {
    if count == 0 {
        return;
    }
    let end = begin + count;
    let behind = end.next_multiple_of(8) - end;
    let ones = u128::from(u64::MAX >> (64 - count)) << behind;
    let value = u128::from(value) << behind & ones;
    let last = end.div_ceil(8) - 1;
    for (back, byte) in bytes[begin / 8..=last].iter_mut().rev().enumerate() {
        let (ones, value) = ((ones >> (back * 8)) as u8, (value >> (back * 8)) as u8);
        *byte = *byte & !ones | value;
    }
}

/// Reads a number of `count` bits into limbs, the lowest first. The limbs above the number become
/// 0.
pub(super) fn read_limbs(bytes: &[u8], begin: usize, count: usize, limbs: &mut [u64]) {
    let mut left = count;
    for limb in limbs {
        let take = left.min(64);
        left -= take;
        *limb = read(bytes, begin + left, take);
    }
}

/// Writes the lowest `count` bits of limbs.
pub(super) fn write_limbs(bytes: &mut [u8], begin: usize, count: usize, limbs: &[u64]) {
    let mut left = count;
    for limb in limbs {
        let take = left.min(64);
        left -= take;
        write(bytes, begin + left, take, *limb);
    }
}

/// Returns the first bit of a field, in a header whose field of variable length has `variable`
/// bits.
fn begin(field: &LooseField, variable: usize) -> usize {
    field.bit as usize + if field.behind_variable { variable } else { 0 }
}

/// Reads a header's loose fields, and its field of variable length, which has `variable` bits.
pub(super) fn extract(
    format: &Format,
    header: Header,
    bytes: &[u8],
    variable: usize,
    words: &mut [u64],
    lines: &mut [Line],
) {
    for field in &format.loose {
        let (begin, bits) = (begin(field, variable), usize::from(field.bits));
        match field.place {
            Place::Word(word) => words[usize::from(header.word + word)] = read(bytes, begin, bits),
            Place::Lines(line) => {
                let first = usize::from(header.line + line);
                let lines = &mut lines[first..first + bits.div_ceil(LIMBS * 64)];
                read_limbs(bytes, begin, bits, lines.as_flattened_mut());
            }
        }
    }
    if let Some(field) = format.variable {
        let first = usize::from(header.line + field.line);
        let lines = &mut lines[first..first + usize::from(field.lines)];
        read_limbs(bytes, field.bit as usize, variable, lines.as_flattened_mut());
        words[usize::from(header.word + field.length)] = variable as u64;
    }
}

/// Writes a header's loose fields, and its field of variable length, which has `variable` bits.
pub(super) fn emit(
    format: &Format,
    header: Header,
    variable: usize,
    words: &[u64],
    lines: &[Line],
    bytes: &mut [u8],
) {
    for field in &format.loose {
        let (begin, bits) = (begin(field, variable), usize::from(field.bits));
        match field.place {
            Place::Word(word) => write(bytes, begin, bits, words[usize::from(header.word + word)]),
            Place::Lines(line) => {
                write_limbs(bytes, begin, bits, lines[usize::from(header.line + line)..].as_flattened());
            }
        }
    }
    if let Some(field) = format.variable {
        let first = usize::from(header.line + field.line);
        let lines = &lines[first..first + usize::from(field.lines)];
        write_limbs(bytes, field.bit as usize, variable, lines.as_flattened());
    }
}
