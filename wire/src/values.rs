//! The values of one slice.

use crate::constants::VALUES_BYTES;

/// The values of one received slice: [`VALUES_PER_SLICE`](crate::constants::VALUES_PER_SLICE)
/// big-endian integers, read where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuesView<'a>(&'a [u8; VALUES_BYTES]);

impl<'a> ValuesView<'a> {
    /// The values that lie in `bytes`; any bytes are values.
    pub fn new(bytes: &'a [u8; VALUES_BYTES]) -> Self {
        Self(bytes)
    }

    /// The values as they travel: big-endian.
    pub fn bytes(self) -> &'a [u8; VALUES_BYTES] {
        self.0
    }

    /// The values in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = i32> + 'a {
        let (words, _) = self.0.as_chunks::<4>();
        words.iter().map(|word| i32::from_be_bytes(*word))
    }
}

/// Writes values as they travel, big-endian; `out` has four bytes for each of them.
pub fn write(values: &[i32], out: &mut [u8]) {
    let (words, _) = out.as_chunks_mut::<4>();
    for (word, value) in words.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}
