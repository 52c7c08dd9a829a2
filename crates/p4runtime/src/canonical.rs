//! Byte strings, in which P4Runtime carries a `bit<W>` value of any width.
//!
//! The canonical form of a number is its big-endian bytes without leading zero bytes. It has at
//! least one byte: zero is one zero byte (P4Runtime specification, section "Bytestrings"). Received
//! values may have leading zeros; sent values are always canonical.

use thiserror::Error;

/// The reason why a byte string is not a value of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ByteStringError {
    /// The string has no bytes. The value zero would be one zero byte.
    #[error("an empty byte string is no value: zero is sent as one zero byte")]
    Empty,
    /// The number needs more bits than the field has.
    #[error("a value of {needed} bits does not fit into bit<{width}>")]
    TooWide {
        /// Bits that the value needs.
        needed: u32,
        /// The field's width in bits.
        width: u32,
    },
    /// The number needs more than the 128 bits that this library supports.
    #[error("a value of {needed} bits: numbers of more than 128 bits are not supported here")]
    TooBig {
        /// Bits that the value needs.
        needed: u32,
    },
}

/// Returns the canonical bytes of a number.
///
/// ```
/// # use tributary_p4runtime::canonical;
/// assert_eq!(canonical::encode(0), [0]);
/// assert_eq!(canonical::encode(0x1ff), [1, 0xff]);
/// ```
pub fn encode(value: u128) -> Vec<u8> {
    strip(&value.to_be_bytes()).to_vec()
}

/// Returns the canonical bytes of a number, which must fit into `width` bits.
pub fn encode_within(value: u128, width: u32) -> Result<Vec<u8>, ByteStringError> {
    let bytes = encode(value);
    check(&bytes, width)?;
    Ok(bytes)
}

/// Returns the canonical form of a received byte string, which must fit into `width` bits.
pub fn check(bytes: &[u8], width: u32) -> Result<&[u8], ByteStringError> {
    if bytes.is_empty() {
        return Err(ByteStringError::Empty);
    }
    let needed = bits(bytes);
    if needed > width { Err(ByteStringError::TooWide { needed, width }) } else { Ok(strip(bytes)) }
}

/// Returns the number in a received byte string, which must fit into `width` bits.
pub fn decode(bytes: &[u8], width: u32) -> Result<u128, ByteStringError> {
    let significant = check(bytes, width)?;
    if significant.len() > size_of::<u128>() {
        return Err(ByteStringError::TooBig { needed: bits(bytes) });
    }
    Ok(significant.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}

/// Returns the largest number of `width` bits, or of 128 bits if the field is wider.
pub fn all_ones(width: u32) -> u128 {
    if width >= u128::BITS { u128::MAX } else { (1 << width) - 1 }
}

/// Strips leading zero bytes, but leaves at least one byte.
fn strip(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    &bytes[zeros.min(bytes.len().saturating_sub(1))..]
}

/// Returns the number of bits that the number needs. It saturates, so that it does not overflow for
/// long strings.
fn bits(bytes: &[u8]) -> u32 {
    let significant = strip(bytes);
    let Some(first) = significant.first() else { return 0 };
    let below = u32::try_from(significant.len() - 1).unwrap_or(u32::MAX);
    below.saturating_mul(8).saturating_add(u8::BITS - first.leading_zeros())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zero_is_one_zero_byte() {
        assert_eq!(encode(0), [0]);
        assert_eq!(decode(&[0], 1), Ok(0));
        assert_eq!(decode(&[], 1), Err(ByteStringError::Empty));
    }

    #[test]
    fn a_width_counts_bits_not_bytes() {
        assert_eq!(encode_within(511, 9), Ok(vec![1, 255]));
        assert_eq!(encode_within(512, 9), Err(ByteStringError::TooWide { needed: 10, width: 9 }));
        assert_eq!(decode(&[2, 0], 9), Err(ByteStringError::TooWide { needed: 10, width: 9 }));
    }

    #[test]
    fn a_value_wider_than_a_number_is_still_checked_as_bytes() {
        let mut wide = vec![0; 4];
        wide.extend([1; 20]);
        assert_eq!(check(&wide, 153), Ok(&wide[4..]));
        assert_eq!(decode(&wide, 153), Err(ByteStringError::TooBig { needed: 153 }));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(value: u128, spare in 0u32..8) {
            let width = (u128::BITS - value.leading_zeros()).max(1) + spare;
            let bytes = encode_within(value, width).unwrap();
            prop_assert_eq!(decode(&bytes, width), Ok(value));
            prop_assert!(bytes.len() == 1 || bytes[0] != 0, "leading zeros in {bytes:?}");
        }

        #[test]
        fn leading_zeros_change_nothing(value: u128, zeros in 0usize..40) {
            let mut bytes = vec![0; zeros];
            bytes.extend(encode(value));
            prop_assert_eq!(decode(&bytes, 128), Ok(value));
            prop_assert_eq!(check(&bytes, 128).unwrap(), encode(value));
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>, width in 0u32..300) {
            match decode(&bytes, width) {
                Ok(value) => prop_assert!(value <= all_ones(width)),
                Err(ByteStringError::TooWide { needed, .. }) => prop_assert!(needed > width),
                Err(ByteStringError::TooBig { needed }) => prop_assert!(needed > 128 && needed <= width),
                Err(ByteStringError::Empty) => prop_assert!(bytes.is_empty()),
            }
        }
    }
}
