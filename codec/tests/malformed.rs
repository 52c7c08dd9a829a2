//! Codes come from a network: whatever arrives is decoded or refused, and never believed.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{ALL, encode, gradients, long_tailed};
use tributary_codec::{DecodeError, decode};

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200), expected in 0usize..300) {
        let _ = decode(&bytes, expected);
    }

    #[test]
    fn arbitrary_bodies_do_no_harm(
        codec in 0u8..7, parameter in 0u16..10, values in 0u32..40, body in vec(any::<u8>(), 0..200),
    ) {
        let mut code = vec![1, codec];
        code.extend(parameter.to_le_bytes());
        code.extend(values.to_le_bytes());
        code.extend(body);
        if let Ok(decoded) = decode(&code, values as usize) {
            prop_assert_eq!(decoded.len(), values as usize);
            prop_assert!(decoded.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn changed_codes_decode_to_finite_values_or_not_at_all(
        gradient in gradients(), name in prop::sample::select(ALL.to_vec()),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut code = encode(name, &gradient);
        for (at, byte) in changes {
            let at = at.index(code.len());
            code[at] = byte;
        }
        if let Ok(decoded) = decode(&code, gradient.len()) {
            prop_assert!(decoded.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn codes_that_are_cut_or_continued_are_refused(
        gradient in gradients(), name in prop::sample::select(ALL.to_vec()), at in any::<prop::sample::Index>(),
    ) {
        let mut code = encode(name, &gradient);
        let cut = &code[..at.index(code.len())];
        let refused = decode(cut, gradient.len()).unwrap_err();
        prop_assert!(matches!(refused, DecodeError::TooShort { .. }), "{name}: {refused}");
        code.push(0);
        let refused = decode(&code, gradient.len()).unwrap_err();
        prop_assert_eq!(refused, DecodeError::TooLong(1), "{}", name);
    }
}

/// The text of the error that follows when bytes of a code of 8 values are changed.
fn refusal(name: &str, at: usize, bytes: &[u8]) -> String {
    let mut code = encode(name, &[-4.0, -1.0, 0.5, 7.0, 7.0, 0.5, -1.0, -4.0]);
    code[at..at + bytes.len()].copy_from_slice(bytes);
    decode(&code, 8).unwrap_err().to_string()
}

#[test]
fn an_error_says_what_is_wrong() {
    let nan = f32::NAN.to_le_bytes();
    let cases: [(&str, usize, &[u8], &str); 16] = [
        ("none", 0, &[9], "version 9"),
        ("none", 1, &[77], "number 77"),
        ("none", 2, &[1], "parameter is 1"),
        ("none", 4, &[9], "9 values where 8"),
        ("none", 12, &nan, "value 1 of the code is NaN"),
        ("f16", 8, &[0, 1, 0, 0], "the power is 256"),
        ("f16", 12, &[0, 0x7C], "value 0 of the code is inf"),
        ("uniform-2", 2, &[9], "number of bits is 9"),
        ("uniform-2", 8, &nan, "lowest value is NaN"),
        ("uniform-2", 8, &1e9_f32.to_le_bytes(), "above the highest"),
        ("terngrad", 8, &(-1_f32).to_le_bytes(), "negative"),
        ("terngrad", 12, &[0b11], "value 0 has the index 3"),
        ("casq-4", 8, &[0], "[0, 1, 1, 1]"),
        ("casq-4", 8, &[255; 4], "4294967295"),
        ("casq-4", 24, &nan, "mean is NaN"),
        ("casq-4-shared", 16, &[0, 5, 4, 15], "ascend"),
    ];
    for (name, at, bytes, expected) in cases {
        let refused = refusal(name, at, bytes);
        assert!(refused.contains(expected), "{name}: {refused:?} does not say {expected:?}");
    }
}

#[test]
fn a_code_that_claims_much_costs_nothing() {
    // 4 billion values, and 4 billion buckets: refused before anything of that size is allocated.
    let mut code = encode("casq-4", &long_tailed(1000));
    code[4..8].fill(0xFF);
    assert!(matches!(decode(&code, 1000), Err(DecodeError::Values { expected: 1000, got: u32::MAX })));
    let mut code = encode("casq-4", &long_tailed(1000));
    code[8..12].copy_from_slice(&900_u32.to_le_bytes());
    assert!(matches!(decode(&code, 1000), Err(DecodeError::TooShort { .. })));
}

#[test]
fn bits_that_belong_to_no_value_are_zero() {
    let mut code = encode("uniform-2", &[0.0, 1.0, 2.0]);
    *code.last_mut().unwrap() |= 0b0100_0000;
    assert!(decode(&code, 3).unwrap_err().to_string().contains("bits that belong to no value"));
}
