//! Values of types with `@p4runtime_translation`, which have different forms for controllers and in
//! packets.
//!
//! P4Runtime does not define the meaning of a translation. In this switch, both forms are the same
//! number. A controller's bit string may be wider or narrower than the packet's field, and the
//! number must fit into both. A controller's text is the number in decimal.

use std::borrow::Cow;

use tributary_p4runtime::canonical;

/// The form of a value for controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Translation {
    /// The same bytes as in packets.
    #[default]
    None,
    /// A bit string of this width.
    Bits(u32),
    /// A decimal number, as text.
    Text,
}

impl Translation {
    /// Converts a controller's value to the canonical bytes of a packet's field of `bits` bits.
    ///
    /// # Errors
    /// The text describes the fault of the value.
    pub(crate) fn decode(self, value: &[u8], bits: u32) -> Result<Cow<'_, [u8]>, String> {
        let checked = |width: u32| canonical::check(value, width).map_err(|error| error.to_string());
        match self {
            Self::None => checked(bits).map(Cow::Borrowed),
            Self::Bits(width) => {
                checked(width)?;
                checked(bits).map(Cow::Borrowed)
            }
            Self::Text => {
                let text = str::from_utf8(value).unwrap_or_default();
                let canonical = text == "0" || !text.starts_with(['0', '+']);
                let number = text.parse::<u128>().ok().filter(|_| canonical);
                let number = number.ok_or_else(|| {
                    let given = String::from_utf8_lossy(value);
                    format!("a translated value is a number in decimal here, such as \"7\", not {given:?}")
                })?;
                canonical::encode_within(number, bits).map(Cow::Owned).map_err(|error| error.to_string())
            }
        }
    }

    /// Converts the canonical bytes of a packet's field to the controller's form.
    pub(crate) fn encode(self, value: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None | Self::Bits(_) => value,
            // Text is allowed only for fields of at most 128 bits, so the number fits.
            Self::Text => {
                canonical::decode(&value, u128::BITS).map_or(value, |number| number.to_string().into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_to_fit_on_both_sides() {
        let wide = Translation::Bits(32);
        assert_eq!(wide.decode(&[0, 1, 0xff], 9), Ok(Cow::Borrowed(&[1, 0xff][..])));
        assert!(wide.decode(&[2, 0], 9).is_err());
        let narrow = Translation::Bits(4);
        assert!(narrow.decode(&[15], 9).is_ok() && narrow.decode(&[16], 9).is_err());
        assert_eq!(narrow.encode(vec![1, 0]), [1, 0]);
    }

    #[test]
    fn strings_are_decimal_numbers() {
        for (text, bytes) in [("0", &[0][..]), ("7", &[7]), ("510", &[1, 0xfe])] {
            assert_eq!(Translation::Text.decode(text.as_bytes(), 9).unwrap(), bytes);
            assert_eq!(Translation::Text.encode(bytes.to_vec()), text.as_bytes());
        }
        for bad in ["", "07", "+7", "-1", "512", "eth0", "7 ", "0x7"] {
            assert!(Translation::Text.decode(bad.as_bytes(), 9).is_err(), "{bad}");
        }
        assert!(Translation::Text.decode(&[0xff], 9).is_err());
    }
}
