//! Headers between the bytes of a frame and the words and lines of a packet.

use crate::program::{Format, Header, LIMBS, Line};

/// Reads a header from `bytes`, which is as long as it is, and makes it valid.
pub(super) fn extract(format: &Format, header: Header, bytes: &[u8], words: &mut [u64], lines: &mut [Line]) {
    let words = &mut words[usize::from(header.word)..];
    words[0] = 1;
    for group in &format.groups {
        let value = read(&bytes[group.offset..group.offset + group.bytes]);
        for part in &group.parts {
            words[usize::from(part.word)] = value >> part.shift & part.mask;
        }
    }
    for wide in &format.wides {
        let first = usize::from(header.line + wide.line);
        let limbs = lines[first..first + wide.bytes.div_ceil(LIMBS * 8)].as_flattened_mut();
        let bytes = &bytes[wide.offset..wide.offset + wide.bytes];
        let (front, whole) = bytes.as_rchunks::<8>();
        for (limb, bytes) in limbs.iter_mut().zip(whole.iter().rev()) {
            *limb = u64::from_be_bytes(*bytes);
        }
        if !front.is_empty() {
            limbs[whole.len()] = read(front);
        }
        let used = whole.len() + usize::from(!front.is_empty());
        limbs[used..].fill(0);
    }
}

/// Writes a header to `bytes`, which is as long as it is.
pub(super) fn emit(format: &Format, header: Header, words: &[u64], lines: &[Line], bytes: &mut [u8]) {
    let words = &words[usize::from(header.word)..];
    for group in &format.groups {
        let parts = group.parts.iter();
        let value = parts.fold(0, |value, part| value | words[usize::from(part.word)] << part.shift);
        write(value, &mut bytes[group.offset..group.offset + group.bytes]);
    }
    for wide in &format.wides {
        let first = usize::from(header.line + wide.line);
        let limbs = lines[first..first + wide.bytes.div_ceil(LIMBS * 8)].as_flattened();
        let bytes = &mut bytes[wide.offset..wide.offset + wide.bytes];
        let (front, whole) = bytes.as_rchunks_mut::<8>();
        let count = whole.len();
        for (limb, bytes) in limbs.iter().zip(whole.iter_mut().rev()) {
            *bytes = limb.to_be_bytes();
        }
        if !front.is_empty() {
            write(limbs[count], front);
        }
    }
}

/// A big-endian number of up to 8 bytes. The usual lengths go in one load.
#[inline(always)]
fn read(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f] => {
            u64::from(u32::from_be_bytes([a, b, c, d])) << 16 | u64::from(u16::from_be_bytes([e, f]))
        }
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

/// The lowest bytes of a number, big-endian.
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
