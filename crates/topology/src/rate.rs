//! Rates of links, in the form that users write.

/// The units of rates with their size in bit/s, the largest first.
const UNITS: [(&str, u64); 4] =
    [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];
/// The highest rate in bit/s. Up to it, rates are exact as floats, and sums of rates do not overflow.
pub const MAX_RATE: u64 = 1_000_000_000_000_000;

/// Parses a rate such as `"50 Mbit/s"` or `"2.5 Gbit/s"`, and returns it in bit/s.
/// Returns `None` if the text is not a rate, or if the rate is above [`MAX_RATE`]. A rate of 0 is valid.
pub fn parse_rate(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, scale) = UNITS.iter().find_map(|&(unit, scale)| {
        let at = text.len().checked_sub(unit.len())?;
        let tail = text.get(at..)?;
        tail.eq_ignore_ascii_case(unit).then(|| (text[..at].trim_end(), scale))
    })?;
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain)? * scale as f64;
    (value <= MAX_RATE as f64).then_some(value.round() as u64)
}

/// Formats a rate in bit/s, with the largest unit for which the number is at least 1.
pub fn format_rate(rate: u64) -> String {
    let (unit, scale) = UNITS.into_iter().find(|&(_, scale)| rate >= scale).unwrap_or(("bit/s", 1));
    let hundredths = (rate as f64 / scale as f64 * 100.0).round() / 100.0;
    format!("{hundredths} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!(parse_rate("50 Mbit/s"), Some(50_000_000));
        assert_eq!(parse_rate("2.5Gbit/s"), Some(2_500_000_000));
        assert_eq!(parse_rate(" 8 KBIT/S "), Some(8_000));
        assert_eq!(parse_rate("0 bit/s"), Some(0));
        for bad in ["", "50", "Mbit/s", "-1 Mbit/s", "1e3 Mbit/s", "inf Gbit/s", "5 MB/s", "9e9 Gbit/s"] {
            assert_eq!(parse_rate(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn rates_are_written_with_the_fitting_unit() {
        assert_eq!(format_rate(50_000_000), "50 Mbit/s");
        assert_eq!(format_rate(2_500_000_000), "2.5 Gbit/s");
        assert_eq!(format_rate(0), "0 bit/s");
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(rate in 0u64..1_000) {
            for scale in [1, 1_000, 1_000_000, 1_000_000_000] {
                prop_assert_eq!(parse_rate(&format_rate(rate * scale)), Some(rate * scale));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = parse_rate(&text);
        }
    }
}
