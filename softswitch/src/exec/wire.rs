//! Headers between the bytes of a frame and the words and lines of a packet.

use crate::program::{Format, Header, LIMBS, Line};

/// Reads a header from the beginning of `bytes`, which is at least as long as it is, and makes it valid.
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
        let limbs = lines[first..first + wide.bytes.div_ceil(LIMBS * 8)].as_flattened_mut();
        let bytes = &bytes[wide.offset..wide.offset + wide.bytes];
        let (front, whole) = bytes.as_rchunks::<8>();
        for (limb, bytes) in limbs.iter_mut().zip(whole.iter().rev()) {
            *limb = u64::from_be_bytes(*bytes);
        }
        if !front.is_empty() {
            limbs[whole.len()] = front.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
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
        let value = parts.fold(0, |value, (word, shift)| value | words[usize::from(*word)] << shift);
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

/// Eight bytes, those behind the frame's end being zeros.
#[cold]
fn last_bytes(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    let len = bytes.len().min(8);
    padded[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(padded)
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
