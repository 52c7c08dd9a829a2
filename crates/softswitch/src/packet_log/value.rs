//! Values of fields, in the notation of the log.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::program::limbs;

/// Fields of up to this number of bits, ports among them, are written in decimal.
const DECIMAL_BITS: u32 = 9;
/// The maximum number of bytes of a value in text for people.
const SHOWN_BYTES: u32 = 40;

/// A number with a width in bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// The number's limbs, the lowest first.
    limbs: Vec<u64>,
    bits: u32,
}

impl Value {
    pub(super) fn new(limbs: &[u64], bits: u32) -> Self {
        Self { limbs: limbs.to_vec(), bits }
    }

    pub(super) fn word(word: u64, bits: u32) -> Self {
        Self::new(&[word], bits)
    }

    /// Makes a value from a big-endian byte string.
    pub(super) fn bytes(bytes: &[u8], bits: u32) -> Self {
        Self { limbs: limbs(bytes), bits }
    }

    /// Returns the hexadecimal digit at a place, counted from the lowest.
    fn digit(&self, place: u32) -> u64 {
        self.limbs.get(place as usize / 16).map_or(0, |limb| limb >> (place % 16 * 4) & 0xf)
    }

    fn small(&self) -> Option<u64> {
        let (lowest, rest) = self.limbs.split_first()?;
        rest.iter().all(|limb| *limb == 0).then_some(*lowest)
    }

    /// Returns all hexadecimal digits of the value's width.
    fn hex(&self) -> impl Iterator<Item = char> {
        (0..self.bits.div_ceil(4)).rev().filter_map(|place| char::from_digit(self.digit(place) as u32, 16))
    }
}

impl fmt::Display for Value {
    /// Formats a value for people: small numbers and narrow fields in decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.small() {
            Some(number) if number < 10 || self.bits <= DECIMAL_BITS => return write!(f, "{number}"),
            _ => {}
        }
        f.write_str("0x")?;
        self.hex().take(SHOWN_BYTES as usize * 2).try_for_each(|digit| write!(f, "{digit}"))?;
        if self.bits.div_ceil(8) > SHOWN_BYTES {
            write!(f, "… ({} bytes)", self.bits.div_ceil(8))?;
        }
        Ok(())
    }
}

impl Serialize for Value {
    /// Writes a value for programs as a string, because not all numbers of JSON are exact.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("0x{}", self.hex().collect::<String>()))
    }
}
