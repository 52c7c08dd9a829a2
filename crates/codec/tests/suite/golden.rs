//! Tests of the bytes of the format.
//! Codes that are stored, or that another version of this program sends, must stay readable.

use tributary_codec::decode;

use crate::support::{codec, encode};

const GRADIENT: [f32; 10] = [-4.0, -1.0, 0.5, 8.0, 8.0, 0.5, -1.0, -4.0, 0.5, 0.5];

#[test]
fn codes_are_these_bytes() {
    let codes = [
        (
            "none",
            "010000000a000000 000080c0 000080bf 0000003f 00000041 00000041 0000003f 000080bf 000080c0 0000003f 0000003f",
        ),
        ("f16", "010100000a000000 f5ffffff 00f0 00e8 0064 0074 0074 0064 00e8 00f0 0064 0064"),
        ("uniform-2", "010202000a000000 000080c0 00000041 d4170 5"),
        (
            "casq-4",
            "010404000a000000 01000000 01000000 01000000 01000000 000080c0 000080bf 0000003f 00000041 e41b0a",
        ),
        ("casq-4-shared", "010504000a000000 0000663f 05000000 0004060f e41b0a"),
        // The code has the means of six positive and four negative values.
        ("one-bit", "010600000a000000 00004040 000020c0 c300"),
        // The values at positions 0, 3, 4 and 7. With 1 low bit each, bits 0, 2, 4 and 6 of the high parts are set.
        ("top-3", "010703000a000000 000080c0 00000041 00000041 000080c0 0a 55"),
        ("quantile-4", "010804000a000000 000080c0 000080bf 0000003f 00000041 e41b0a"),
    ];
    for (name, expected) in codes {
        let code = hex::encode(encode(name, &GRADIENT));
        assert_eq!(code, expected.replace(' ', ""), "{name}");
    }
}

#[test]
fn largest_values_find_their_places() {
    // One in 10 of 40 values are 4 values. Their 3 low bits are 7, 0, 1 and 7; their high parts are 0, 1, 1 and 4.
    let lows: u16 = 0b111_001_000_111;
    let highs: u16 = 1 | 1 << (1 + 1) | 1 << (1 + 2) | 1 << (4 + 3);
    let mut code = hex::decode("01070a0028000000").unwrap();
    [1.0_f32, -2.0, 3.0, -4.0].iter().for_each(|value| code.extend(value.to_le_bytes()));
    code.extend(lows.to_le_bytes());
    code.extend(&highs.to_le_bytes()[..1]);
    let mut expected = [0.0; 40];
    (expected[7], expected[8], expected[9], expected[39]) = (1.0, -2.0, 3.0, -4.0);
    assert_eq!(decode(&code, 40).unwrap(), expected);
    let mut codec = codec("top-10", &[]);
    assert_eq!(codec.encode(&expected).unwrap(), code);
}

#[test]
fn values_find_their_buckets_by_the_hash_of_their_position() {
    // One cluster has four buckets with the means 0, 1, 2 and 3.
    let mut code = hex::decode("0104010008000000".to_owned() + "04000000").unwrap();
    (0..4).for_each(|mean| code.extend((mean as f32).to_le_bytes()));
    // The buckets follow from the first multiples of 2^32 / 1.618…, in quarters of 2^32.
    assert_eq!(decode(&code, 8).unwrap(), [0.0, 2.0, 0.0, 3.0, 1.0, 0.0, 2.0, 1.0]);
}

#[test]
fn terngrad_of_these_bytes_is_these_values() {
    let code = hex::decode("0103000005000000".to_owned() + "0000003f" + "9800").unwrap();
    assert_eq!(decode(&code, 5).unwrap(), [0.0, -0.5, 0.5, -0.5, 0.0]);
    assert_eq!(
        codec("terngrad", &[]).encode(&[2.5; 5]).unwrap(),
        hex::decode("0103000005000000000020405501").unwrap()
    );
}
