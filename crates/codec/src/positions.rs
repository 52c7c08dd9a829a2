//! A compact encoding of the positions of a few among many values, in ascending order.
//!
//! This is the Elias–Fano code (Elias, "Efficient Storage and Retrieval by Content and Address of Static Files",
//! Journal of the ACM 21/2, 1974). Each position is split into a low part and a high part. The low parts are stored in
//! order. The high parts ascend, so only the number of occurrences of each is stored: for the i-th position, with high
//! part h, bit h + i is 1. One in K random positions has an entropy of about log2 K + 1.44 bits. This code takes
//! floor(log2 K) + 2 to 3 bits for any positions, so its length follows from the header.

use crate::bits::{check_padding, packed_len};
use crate::error::DecodeError;
use crate::wire::Reader;

/// The parameters of the encoding:
/// the number of positions, their upper bound, and the number of low bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    count: usize,
    values: usize,
    /// The number of low bits; at most 15.
    low_bits: u32,
}

impl Layout {
    /// Makes the layout for `count` positions below `values`.
    /// `one_in` is about the distance between two positions.
    pub(crate) fn new(count: usize, values: usize, one_in: u16) -> Self {
        Self { count, values, low_bits: one_in.max(1).ilog2() }
    }

    fn lows_len(self) -> usize {
        packed_len(self.count, self.low_bits)
    }

    fn highs_len(self) -> usize {
        (self.count + (self.values.saturating_sub(1) >> self.low_bits)).div_ceil(8)
    }

    /// Returns the number of bytes of all positions.
    pub(crate) fn len(self) -> usize {
        self.lows_len() + self.highs_len()
    }

    /// Appends the positions to `code`. They must be in ascending order.
    pub(crate) fn write(self, positions: &[u32], code: &mut Vec<u8>) {
        let start = code.len();
        code.resize(start + self.len(), 0);
        let (lows, highs) = code[start..].split_at_mut(self.lows_len());
        for (at, position) in positions.iter().enumerate() {
            let low = position & ((1 << self.low_bits) - 1);
            let bit = at * self.low_bits as usize;
            // 15 bits that begin anywhere in a byte end in the third byte at the latest.
            let bytes = (low << (bit % 8)).to_le_bytes();
            lows[bit / 8..].iter_mut().zip(bytes).for_each(|(byte, bits)| *byte |= bits);
            let bit = (position >> self.low_bits) as usize + at;
            highs[bit / 8] |= 1 << (bit % 8);
        }
    }

    /// Reads and checks the positions, which must fill the rest of the code.
    pub(crate) fn read<'a>(self, body: &mut Reader<'a>) -> Result<Positions<'a>, DecodeError> {
        let (lows, highs) = body.take_rest(self.len())?.split_at(self.lows_len());
        check_padding(lows, self.low_bits, self.count)?;
        let positions = Positions { lows, highs, low_bits: self.low_bits };
        let count: usize = highs.iter().map(|byte| byte.count_ones() as usize).sum();
        if count != self.count {
            return Err(DecodeError::Field {
                field: "the number of positions",
                value: count.to_string(),
                rule: "it has to be that of the values which are sent",
            });
        }
        let mut least = 0;
        for position in positions.iter() {
            if !(least..self.values).contains(&position) {
                return Err(DecodeError::Field {
                    field: "a position",
                    value: position.to_string(),
                    rule: "positions have to ascend, and be below the number of values",
                });
            }
            least = position + 1;
        }
        Ok(positions)
    }
}

/// The checked positions of a code. They ascend, and are below the number of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positions<'a> {
    lows: &'a [u8],
    highs: &'a [u8],
    low_bits: u32,
}

impl<'a> Positions<'a> {
    /// Returns the positions in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> + 'a {
        let bits_of = |(at, byte): (usize, &u8)| {
            let byte = *byte;
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
        };
        let highs = self.highs.iter().enumerate().flat_map(bits_of);
        // The i-th 1 is i bits behind the place that its high part names.
        highs.enumerate().map(move |(at, bit)| (bit - at) << self.low_bits | self.low(at))
    }

    fn low(self, at: usize) -> usize {
        let bit = at * self.low_bits as usize;
        let mut bytes = [0; 4];
        let there = self.lows.get(bit / 8..).unwrap_or_default();
        bytes.iter_mut().zip(there).for_each(|(byte, there)| *byte = *there);
        (u32::from_le_bytes(bytes) >> (bit % 8) & ((1 << self.low_bits) - 1)) as usize
    }
}
