//! The hash by which a selector chooses.

use crate::program::{KeySource, Line, Word};

/// The longest input in bytes; the rest counts as left out.
const MAX_BYTES: usize = 256;

/// How a selector hashes a packet.
#[derive(Debug, Clone)]
pub(crate) struct SelectorProgram {
    pub(crate) algorithm: Algorithm,
    /// The fields that it hashes, one behind the other.
    pub(crate) input: Vec<Input>,
}

/// One field that is hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    pub(crate) source: KeySource,
    pub(crate) bits: u32,
    /// The validity of its header, without which it is left out; `None`: metadata.
    pub(crate) valid: Option<Word>,
}

/// The algorithms that p4c knows by these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Identity,
    Crc16,
    Crc32,
    Csum16,
    Xor16,
}

impl Algorithm {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "identity" => Self::Identity,
            "crc16" => Self::Crc16,
            "crc32" => Self::Crc32,
            "csum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            _ => return None,
        })
    }

    fn hash(self, bytes: &[u8]) -> u64 {
        match self {
            // The first eight bytes as a number.
            Self::Identity => bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)),
            Self::Crc16 => u64::from(reflected_crc(bytes, 0, 0xa001)),
            Self::Crc32 => u64::from(!reflected_crc(bytes, u32::MAX, 0xedb8_8320)),
            Self::Csum16 => {
                let mut sum: u64 = pairs(bytes).sum();
                while sum > 0xffff {
                    sum = (sum >> 16) + (sum & 0xffff);
                }
                !sum & 0xffff
            }
            Self::Xor16 => pairs(bytes).fold(0, |all, pair| all ^ pair),
        }
    }
}

/// A CRC of 16 or 32 bits that takes the lowest bits first.
fn reflected_crc(bytes: &[u8], start: u32, polynomial: u32) -> u32 {
    bytes.iter().fold(start, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 }
            },
        )
    })
}

/// Big-endian numbers of two bytes; a last byte alone is the upper half of one.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let pair = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
    bytes.chunks(2).map(pair)
}

impl SelectorProgram {
    /// The hash of a packet's fields.
    pub(crate) fn hash(&self, words: &[u64], lines: &[Line]) -> u64 {
        let mut bits = Bits { bytes: [0; MAX_BYTES], count: 0 };
        for input in &self.input {
            if input.valid.is_some_and(|valid| words[usize::from(valid)] == 0) {
                continue;
            }
            match input.source {
                KeySource::Word(word) => bits.push(words[usize::from(word)], input.bits),
                KeySource::Lines(line, count) => {
                    let limbs = &lines[usize::from(line)..].as_flattened()[..count];
                    let highest = input.bits - 64 * (count as u32 - 1);
                    let widths = std::iter::once(highest).chain(std::iter::repeat(64));
                    limbs.iter().rev().zip(widths).for_each(|(limb, width)| bits.push(*limb, width));
                }
            }
        }
        self.algorithm.hash(&bits.bytes[..bits.count.div_ceil(8).min(MAX_BYTES)])
    }
}

/// Bits in wire order.
struct Bits {
    bytes: [u8; MAX_BYTES],
    count: usize,
}

impl Bits {
    /// Appends the lowest `width` bits.
    fn push(&mut self, value: u64, width: u32) {
        let mut left = width;
        while left > 0 {
            let free = 8 - (self.count % 8) as u32;
            let taken = free.min(left);
            let part = (value >> (left - taken)) as u8 & (u8::MAX >> (8 - taken));
            if let Some(byte) = self.bytes.get_mut(self.count / 8) {
                *byte |= part << (free - taken);
            }
            self.count += taken as usize;
            left -= taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithms_give_their_check_values() {
        let check = b"123456789";
        assert_eq!(Algorithm::Crc16.hash(check), 0xbb3d);
        assert_eq!(Algorithm::Crc32.hash(check), 0xcbf4_3926);
        assert_eq!(Algorithm::Identity.hash(check), 0x3132_3334_3536_3738);
        assert_eq!(Algorithm::Xor16.hash(&[0x12, 0x34, 0xff]), 0xed34);
        assert_eq!(Algorithm::Csum16.hash(&[0xff, 0xff, 0x00, 0x02]), 0xfffd);
    }

    #[test]
    fn fields_are_packed_bit_by_bit() {
        let input = |word, bits| Input { source: KeySource::Word(word), bits, valid: None };
        let wide = Input { source: KeySource::Lines(0, 2), bits: 68, valid: None };
        let selector = SelectorProgram {
            algorithm: Algorithm::Identity,
            input: vec![input(0, 4), wide, input(1, 3), input(2, 5)],
        };
        let line = [0x0123_4567_89ab_cdef, 0xa, 0, 0, 0, 0, 0, 0];
        assert_eq!(selector.hash(&[0xf, 5, 3], &[line]), 0xfa01_2345_6789_abcd);
        let skipped = SelectorProgram {
            algorithm: Algorithm::Identity,
            input: vec![Input { valid: Some(0), ..input(1, 8) }, input(2, 8)],
        };
        assert_eq!(skipped.hash(&[0, 5, 3], &[]), 3);
    }
}
