//! Parameters as bytes: little-endian f32, without separators.

pub(crate) fn encode(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Decodes parameters; `None` if the number of bytes is not a multiple of 4.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<f32>> {
    let (values, rest) = bytes.as_chunks();
    rest.is_empty().then(|| values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
