//! Tests of the names of shared-memory segments.

use std::path::Path;

use tributary_api::agent::SegmentName;

#[test]
fn a_name_is_128_bits_in_lower_case_hexadecimal() {
    let name = SegmentName::new(0xa5f);
    assert_eq!(name.to_string(), "tributary-00000000000000000000000000000a5f");
    assert_eq!(name.path(), Path::new("/dev/shm/tributary-00000000000000000000000000000a5f"));
    assert_eq!(name.to_string().parse(), Ok(name));
}

#[test]
fn other_digits_and_other_lengths_are_refused() {
    let digits = "0123456789abcdef0123456789abcdef";
    assert!(format!("tributary-{digits}").parse::<SegmentName>().is_ok());
    let upper = digits.to_uppercase();
    for refused in [
        digits.to_owned(),
        format!("tributary-{upper}"),
        format!("tributary-{}", &digits[1..]),
        format!("tributary-{digits}0"),
        format!("tributary-g{}", &digits[1..]),
        format!("tributary-/{}", &digits[1..]),
        format!("tributary-`{}", &digits[1..]),
    ] {
        assert!(refused.parse::<SegmentName>().is_err(), "{refused}");
    }
}

#[test]
fn an_error_repeats_as_many_characters_as_a_name_has() {
    let refused = "x".repeat(1_000).parse::<SegmentName>().unwrap_err().to_string();
    assert!(refused.contains(&format!("{:?}", "x".repeat(42))), "{refused}");
}
