//! Tests of malformed codes.
//! Codes come from a network, so any bytes must be decoded or rejected, and none trusted.

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_codec::wire::{HEADER_LEN, VERSION};
use tributary_codec::{DecodeError, decode};

use crate::support::{ALL, encode, gradients, long_tailed};

/// The numbers of codecs in the format.
const CASQ: u8 = 4;
const SHARED: u8 = 5;
const TOP: u8 = 7;
const QUANTILE: u8 = 8;
/// The maximum number of bytes that the decoding of a short code may allocate, for its few fields and
/// an error's text.
/// It must not depend on the sizes that the code announces.
const LITTLE: u64 = 1 << 14;

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200), expected in 0usize..300) {
        let _ = decode(&bytes, expected);
    }

    #[test]
    fn arbitrary_bodies_do_no_harm(
        codec in 0u8..10, parameter in prop_oneof![0u16..10, any::<u16>()], values in 0u32..40,
        body in vec(any::<u8>(), 0..200),
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

/// Generates codecs with clusters, and numbers of clusters that leave some indexes undefined.
fn clusters() -> impl Strategy<Value = (u8, u8)> {
    let casq = [3, 5, 6, 7].map(|clusters| (CASQ, clusters));
    let quantile = [3, 5, 9, 100, 129].map(|buckets| (QUANTILE, buckets));
    prop::sample::select([&casq[..], &quantile, &[(SHARED, 3)]].concat())
}

/// Makes the header of a code.
fn header(codec: u8, parameter: u16, values: u32) -> Vec<u8> {
    [&[VERSION, codec][..], &parameter.to_le_bytes(), &values.to_le_bytes()].concat()
}

/// Makes a code in which cluster c has the value c, from the description of the format.
fn code_of_clusters(codec: u8, clusters: u8, indexes: &[u8]) -> Vec<u8> {
    let mut code = header(codec, clusters.into(), indexes.len() as u32);
    if codec == SHARED {
        code.extend([&1.0_f32.to_le_bytes()[..], &0_i32.to_le_bytes()].concat());
        code.extend(0..clusters);
    } else {
        // CASQ has one bucket for each cluster.
        (0..clusters).filter(|_| codec == CASQ).for_each(|_| code.extend(1_u32.to_le_bytes()));
        (0..clusters).for_each(|mean| code.extend(f32::from(mean).to_le_bytes()));
    }
    let width = usize::from(clusters).next_power_of_two().ilog2() as usize;
    let mut packed = vec![0; (indexes.len() * width).div_ceil(8)];
    for (at, index) in indexes.iter().enumerate() {
        for bit in 0..width {
            let place = at * width + bit;
            packed[place / 8] |= (index >> bit & 1) << (place % 8);
        }
    }
    code.extend(packed);
    code
}

proptest! {
    #[test]
    fn an_index_that_names_no_cluster_is_refused_wherever_it_is(
        (codec, clusters) in clusters(), indexes in vec(any::<u8>(), 8..600), times in 1usize..40,
        at in any::<prop::sample::Index>(), undefined in any::<prop::sample::Index>(),
    ) {
        // The code can have several blocks and pieces.
        let mut indexes = indexes.repeat(times);
        indexes.iter_mut().for_each(|index| *index %= clusters);
        let good = decode(&code_of_clusters(codec, clusters, &indexes), indexes.len()).unwrap();
        prop_assert!(good.iter().zip(&indexes).all(|(value, index)| *value == f32::from(*index)));

        let position = at.index(indexes.len());
        let all = usize::from(clusters).next_power_of_two();
        indexes[position] = clusters + undefined.index(all - usize::from(clusters)) as u8;
        let refused = decode(&code_of_clusters(codec, clusters, &indexes), indexes.len()).unwrap_err();
        let index = indexes[position];
        prop_assert_eq!(refused, DecodeError::Index { position, index, defined: clusters.into() });
    }

    #[test]
    fn what_a_code_claims_takes_no_memory(
        codec in 0u8..10, parameter in prop_oneof![0u16..10, any::<u16>()], values in 1_000_000u32..4_000_000,
        counts in vec(prop_oneof![0u32..3, any::<u32>()], 0..9), body in vec(any::<u8>(), 0..300),
    ) {
        // The header may have the number of values that the server expects. Then the code itself must have the bytes.
        let mut code = header(codec, parameter, values);
        counts.iter().for_each(|count| code.extend(count.to_le_bytes()));
        code.extend(body);
        let (mut refused, expected) = (false, values as usize);
        let taken = allocation_counter::measure(|| refused = decode(&code, expected).is_err());
        // A single cluster needs no indexes, so a few bytes are a valid code of many values.
        prop_assert!(!refused || taken.bytes_max < LITTLE, "{} bytes were taken", taken.bytes_max);
        let taken = allocation_counter::measure(|| refused = decode(&code, 1000).is_err());
        prop_assert!(refused && taken.bytes_max < LITTLE, "{} bytes were taken", taken.bytes_max);
    }
}

/// Makes a code of `top-4` with these positions among 12 values.
fn code_of_places(places: [u32; 3]) -> Vec<u8> {
    let mut code = header(TOP, 4, 12);
    (0..3).for_each(|value| code.extend((value as f32).to_le_bytes()));
    let (mut lows, mut highs) = (0, 0);
    for (at, place) in places.iter().enumerate() {
        lows |= (place & 3) << (2 * at);
        highs |= 1 << ((place >> 2) as usize + at);
    }
    code.extend([lows as u8, highs]);
    code
}

proptest! {
    #[test]
    fn positions_ascend_or_are_refused(places in prop::array::uniform3(0u32..24)) {
        // The bits of the high parts are always in order, for any low parts.
        let mut places = places;
        places.sort_by_key(|place| place >> 2);
        let good = places[0] < places[1] && places[1] < places[2] && places[2] < 12;
        match decode(&code_of_places(places), 12) {
            Ok(decoded) => {
                prop_assert!(good);
                for (value, place) in places.iter().enumerate() {
                    prop_assert_eq!(decoded[*place as usize], value as f32);
                }
            }
            Err(error) => prop_assert!(!good && error.to_string().contains("a position is"), "{}", error),
        }
    }
}

/// Returns the error text for a code of 8 values in which some bytes are changed.
fn refusal(name: &str, at: usize, bytes: &[u8]) -> String {
    let mut code = encode(name, &[-4.0, -1.0, 0.5, 7.0, 7.0, 0.5, -1.0, -4.0]);
    code[at..at + bytes.len()].copy_from_slice(bytes);
    decode(&code, 8).unwrap_err().to_string()
}

#[test]
fn an_error_says_what_is_wrong() {
    let nan = f32::NAN.to_le_bytes();
    let cases: [(&str, usize, &[u8], &str); 27] = [
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
        ("one-bit", 8, &nan, "mean of the positive values is NaN"),
        ("one-bit", 8, &(-1_f32).to_le_bytes(), "the other's sign"),
        ("one-bit", 12, &1_f32.to_le_bytes(), "the other's sign"),
        ("top-3", 2, &[1], "is sent of is 1: 2 to"),
        ("top-3", 8, &nan, "value that is sent is NaN"),
        ("top-3", 21, &[0b1_0001], "number of positions is 2"),
        ("top-3", 21, &[0b100_0011], "a position is 8: positions have to ascend, and be below"),
        ("top-3", 20, &[0, 0b1_0011], "a position is 0: positions have to ascend"),
        ("quantile-4", 2, &[1, 1], "number of buckets is 257"),
        ("quantile-4", 2, &[0], "number of buckets is 0"),
        ("quantile-4", 12, &(-4_f32).to_le_bytes(), "mean is -4: it has to be above"),
    ];
    for (name, at, bytes, expected) in cases {
        let refused = refusal(name, at, bytes);
        assert!(refused.contains(expected), "{name}: {refused:?} does not say {expected:?}");
    }
}

/// Decodes a code, and checks that this fails and allocates hardly any memory.
fn refused_at_no_cost(code: &[u8], expected: usize) -> DecodeError {
    let mut decoded = Ok(Vec::new());
    let taken = allocation_counter::measure(|| decoded = decode(code, expected));
    assert!(taken.bytes_max < LITTLE, "{} bytes were taken", taken.bytes_max);
    decoded.unwrap_err()
}

#[test]
fn a_code_of_any_codec_that_claims_much_costs_nothing() {
    for name in ALL {
        let mut code = encode(name, &long_tailed(1000));
        code[4..HEADER_LEN].fill(0xFF);
        let refused = refused_at_no_cost(&code, 1000);
        assert_eq!(refused, DecodeError::Values { expected: 1000, got: u32::MAX }, "{name}");
        // A server may have a model of this size, and receive a code that was cut short.
        let refused = refused_at_no_cost(&code, u32::MAX as usize);
        assert!(matches!(refused, DecodeError::TooShort { .. }), "{name}: {refused}");
    }
}

#[test]
fn buckets_that_a_code_does_not_have_cost_nothing() {
    let mut code = encode("casq-4", &long_tailed(1000));
    for buckets in [900, 1001, u32::MAX] {
        code[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&buckets.to_le_bytes());
        let refused = refused_at_no_cost(&code, 1000);
        match buckets {
            900 => assert!(matches!(refused, DecodeError::TooShort { .. }), "{refused}"),
            _ => assert!(refused.to_string().contains("numbers of buckets"), "{refused}"),
        }
    }
}

#[test]
fn bits_that_belong_to_no_value_are_zero() {
    let mut code = encode("uniform-2", &[0.0, 1.0, 2.0]);
    *code.last_mut().unwrap() |= 0b0100_0000;
    assert!(decode(&code, 3).unwrap_err().to_string().contains("bits that belong to no value"));
    let mut code = code_of_places([1, 5, 11]);
    let lows = code.len() - 2;
    code[lows] |= 0b0100_0000;
    assert!(decode(&code, 12).unwrap_err().to_string().contains("bits that belong to no value"));
}
