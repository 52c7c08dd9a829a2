//! Tests of rates as text.

use tributary_topology::{format_rate, parse_rate};

#[test]
fn a_rate_is_shown_in_the_largest_unit_with_at_most_two_decimals() {
    let shown = [
        (1, "1 bit/s"),
        (999, "999 bit/s"),
        (1_000, "1 kbit/s"),
        (999_999, "1000 kbit/s"),
        (1_000_000, "1 Mbit/s"),
        (1_234_567, "1.23 Mbit/s"),
        (1_235_001, "1.24 Mbit/s"),
        (1_000_000_000, "1 Gbit/s"),
        (400_000_000_000, "400 Gbit/s"),
    ];
    for (rate, text) in shown {
        assert_eq!(format_rate(rate), text);
    }
}

#[test]
fn a_rate_is_rounded_to_bits_and_at_most_a_petabit() {
    assert_eq!(parse_rate("0.0000000016 Gbit/s"), Some(2));
    assert_eq!(parse_rate("0.4 bit/s"), Some(0));
    assert_eq!(parse_rate("1000000 Gbit/s"), Some(1_000_000_000_000_000));
    assert_eq!(parse_rate("1000000.1 Gbit/s"), None);
    assert_eq!(parse_rate("1000000000000000 bit/s"), Some(1_000_000_000_000_000));
    assert_eq!(parse_rate("+1 Gbit/s"), None);
    assert_eq!(parse_rate(". Gbit/s"), None);
    assert_eq!(parse_rate("ü"), None);
}
