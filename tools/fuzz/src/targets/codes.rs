//! Gradient codes, as a parameter server receives them from workers.
//!
//! The target checks these properties: decoding gives the right number of finite values, or an error;
//! encoding and decoding use memory only in proportion to the values or to the code's bytes; and every code
//! that an encoder writes can be decoded.

use tributary_codec::{Codec, EncodeError, Kind, Uncompressed, decode, decode_into};

use crate::bounded::within;
use crate::finding::sound;
use crate::input::Input;
use crate::{Seed, Target};

/// Memory in addition to the memory for the values and the code's fields.
///
/// It is for the tables of a code, and for an error's text.
const LITTLE: usize = 16 << 10;

/// One codec of each kind.
const CODECS: [&str; 16] = [
    "none",
    "f16",
    "uniform-1",
    "uniform-5",
    "uniform-8",
    "terngrad",
    "one-bit",
    "top-3",
    "top-1000",
    "quantile-4",
    "quantile-256",
    "casq-4",
    "casq-8",
    "casq-4-ef",
    "top-100-ef",
    "casq-4-shared",
];

pub(super) const TARGET: Target = Target {
    name: "codes",
    about: "codes of gradients: two bytes of how many values there should be, then the code",
    max_len: 4096,
    tries: 4000,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let expected = input.number();
    let code = input.0;
    read(code, expected);
    // Decodes the code again, for the number of values that it claims.
    if let Some(said) = code.get(4..8) {
        let said = said.iter().rev().fold(0, |said: usize, byte| said << 8 | usize::from(*byte));
        read(code, said.min(1 << 16));
    }
    let gradient: Vec<f32> =
        code.as_chunks().0.iter().take(256).map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let which = CODECS[expected % CODECS.len()];
    write(which, &gradient);
}

fn read(code: &[u8], expected: usize) {
    let most = expected * size_of::<f32>() + 2 * code.len() + LITTLE;
    match within(most, "a code", || decode(code, expected)) {
        Ok(values) => {
            assert_eq!(values.len(), expected);
            assert!(values.iter().all(|value| value.is_finite()), "a value is not finite");
            let mut again = vec![f32::NAN; expected];
            assert_eq!(decode_into(code, &mut again), Ok(()));
            assert_eq!(again, values);
            if code[1] == 0 {
                assert_eq!(sound(Uncompressed.encode(&values)), code, "there are two codes of these values");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn write(codec: &str, gradient: &[f32]) {
    let mut codec = sound(codec.parse::<Kind>()).codec(1);
    let code = codec.propose(gradient).and_then(|sketch| {
        sketch.map_or(Ok(()), |sketch| codec.agree(&sketch))?;
        codec.encode(gradient)
    });
    match code {
        Ok(code) => {
            let values = sound(decode(&code, gradient.len()));
            assert!(values.iter().all(|value| value.is_finite()));
        }
        Err(EncodeError::NotFinite { .. }) => assert!(gradient.iter().any(|value| !value.is_finite())),
        Err(EncodeError::EmptySketch) => assert!(gradient.is_empty()),
        Err(error) => sound(Err(error)),
    }
}

fn seeds() -> Vec<Seed> {
    let gradient: Vec<f32> = (0..40).map(|i: i16| (f32::from(i) - 17.0).powi(3) / 512.0).collect();
    let seed = |name: &&str| {
        let mut codec = sound(name.parse::<Kind>()).codec(1);
        if let Some(sketch) = sound(codec.propose(&gradient)) {
            sound(codec.agree(&sketch));
        }
        let code = sound(codec.encode(&gradient));
        ((*name).to_owned(), [&(gradient.len() as u16).to_be_bytes()[..], &code].concat())
    };
    CODECS.iter().map(seed).collect()
}
