//! The values of one slice.

use multiversion::multiversion;

/// A view of the values of one received slice: big-endian integers that are not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuesView<'a>(&'a [[u8; size_of::<i32>()]]);

impl<'a> ValuesView<'a> {
    /// Makes a view of the values in `bytes`. Any four bytes are a valid value.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Returns the values in wire format (big-endian).
    pub fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns the number of values.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns true if the view has no values.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns chunks of `values` values in order; the last chunk may have fewer.
    pub fn chunks(self, values: usize) -> impl Iterator<Item = Self> {
        self.0.chunks(values).map(Self)
    }

    /// Returns the first value, and a view of the others; `None` for an empty view.
    pub fn split_first(self) -> Option<(i32, Self)> {
        let (first, others) = self.0.split_first()?;
        Some((i32::from_be_bytes(*first), Self(others)))
    }

    /// Returns the values in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = i32> + 'a {
        self.0.iter().map(|word| i32::from_be_bytes(*word))
    }
}

/// Returns values in wire format (big-endian).
pub fn to_bytes(values: &[i32]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(values)];
    write(values, &mut bytes);
    bytes
}

/// Reads values into `out`, up to the end of the shorter one.
///
/// Like [`write()`], it is also compiled for AVX2.
#[multiversion(targets("x86_64+avx2"))]
pub fn read(values: ValuesView<'_>, out: &mut [i32]) {
    for (to, value) in out.iter_mut().zip(values.iter()) {
        *to = value;
    }
}

/// Writes values to `out` in wire format (big-endian). `out` should have four bytes for each value.
///
/// It is also compiled for AVX2, because without AVX2 no instruction swaps the byte order of many values at once.
#[multiversion(targets("x86_64+avx2"))]
pub fn write(values: &[i32], out: &mut [u8]) {
    let (words, _) = out.as_chunks_mut::<4>();
    for (word, value) in words.iter_mut().zip(values) {
        *word = value.to_be_bytes();
    }
}
