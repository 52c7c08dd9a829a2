//! Moves headers between the bytes of a frame and the words and lines of a packet.

use super::bits;
use crate::program::{Format, Header, LIMBS, Line};

/// Bytes in a line.
const LINE_BYTES: usize = LIMBS * 8;

/// Reads a header from the beginning of `bytes`, and makes it valid. `bytes` is at least as long as
/// the header.
#[inline(always)]
pub(super) fn extract(format: &Format, header: Header, bytes: &[u8], words: &mut [u64], lines: &mut [Line]) {
    let words = &mut words[usize::from(header.word)..][..usize::from(format.words)];
    words[0] = 1;
    for field in &format.narrows {
        let offset = usize::from(field.offset);
        let value = match bytes.get(offset..offset + 8) {
            Some(&[a, b, c, d, e, f, g, h]) => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            _ => last_bytes(&bytes[offset..]),
        };
        words[usize::from(field.word)] = value >> field.shift & field.mask;
    }
    for wide in &format.wides {
        let first = usize::from(header.line + wide.line);
        let lines = &mut lines[first..first + wide.bytes.div_ceil(LINE_BYTES)];
        let (front, whole) = bytes[wide.offset..wide.offset + wide.bytes].as_rchunks::<LINE_BYTES>();
        for (line, bytes) in lines.iter_mut().zip(whole.iter().rev()) {
            *line = read_line(bytes);
        }
        if let Some(line) = lines.get_mut(whole.len()) {
            let mut padded = [0; LINE_BYTES];
            padded[LINE_BYTES - front.len()..].copy_from_slice(front);
            *line = read_line(&padded);
        }
    }
}

/// Reads a big-endian number as limbs.
#[inline(always)]
fn read_line(bytes: &[u8; LINE_BYTES]) -> Line {
    let mut line = [0; LIMBS];
    for (limb, bytes) in line.iter_mut().zip(bytes.as_chunks::<8>().0.iter().rev()) {
        *limb = u64::from_be_bytes(*bytes);
    }
    line
}

/// Writes limbs as a big-endian number.
#[inline(always)]
fn write_line(line: &Line, bytes: &mut [u8; LINE_BYTES]) {
    for (limb, bytes) in line.iter().zip(bytes.as_chunks_mut::<8>().0.iter_mut().rev()) {
        *bytes = limb.to_be_bytes();
    }
}

/// Writes a header to `bytes`, whose length is the length of the header.
#[inline(always)]
pub(super) fn emit(format: &Format, header: Header, words: &[u64], lines: &[Line], bytes: &mut [u8]) {
    let own = &words[usize::from(header.word)..];
    for group in &format.groups {
        let parts = group.parts.iter();
        let value = parts.fold(0, |value, (word, shift)| value | own[usize::from(*word)] << shift);
        write(value, &mut bytes[group.offset..group.offset + group.bytes]);
    }
    for wide in &format.wides {
        let first = usize::from(header.line + wide.line);
        let lines = &lines[first..first + wide.bytes.div_ceil(LINE_BYTES)];
        let (front, whole) = bytes[wide.offset..wide.offset + wide.bytes].as_rchunks_mut::<LINE_BYTES>();
        if let Some(line) = lines.get(whole.len()) {
            let mut padded = [0; LINE_BYTES];
            write_line(line, &mut padded);
            front.copy_from_slice(&padded[LINE_BYTES - front.len()..]);
        }
        for (line, bytes) in lines.iter().zip(whole.iter_mut().rev()) {
            write_line(line, bytes);
        }
    }
    if !format.loose.is_empty() || format.variable.is_some() {
        emit_loose(format, header, words, lines, bytes);
    }
}

/// Writes the fields that [`emit`] leaves out, bit by bit.
#[cold]
fn emit_loose(format: &Format, header: Header, words: &[u64], lines: &[Line], bytes: &mut [u8]) {
    let variable = format.variable.map_or(0, |field| field.bits_of(header, words));
    bits::emit(format, header, variable, words, lines, bytes);
}

/// Returns the first eight bytes, with zeros behind the end of `bytes`.
#[cold]
fn last_bytes(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    let len = bytes.len().min(8);
    padded[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(padded)
}

/// Writes the lowest bytes of a number, big-endian.
#[inline(always)]
fn write(value: u64, bytes: &mut [u8]) {
    let all = value.to_be_bytes();
    match bytes {
        [a] => *a = all[7],
        [a, b] => [*a, *b] = [all[6], all[7]],
        [a, b, c, d] => [*a, *b, *c, *d] = [all[4], all[5], all[6], all[7]],
        _ => {
            let len = bytes.len().min(8);
            bytes[..len].copy_from_slice(&all[8 - len..]);
        }
    }
}
