//! From any code back to values.

use crate::error::DecodeError;
use crate::wire::Reader;
use crate::{casq, f16, none, shared, terngrad, uniform};

/// The `expected` values of a code.
///
/// Nothing is believed: a code with other than `expected` values is refused before anything is allocated
/// that depends on it.
///
/// # Errors
/// Says what is wrong with the code.
pub fn decode(code: &[u8], expected: usize) -> Result<Vec<f32>, DecodeError> {
    let (header, _) = Reader::open(code)?;
    check_values(header.values, expected)?;
    let mut out = vec![0.0; expected];
    decode_into(code, &mut out)?;
    Ok(out)
}

/// Writes the values of a code to `out`, which must have as many.
///
/// # Errors
/// Says what is wrong with the code; `out` holds nothing of use then.
pub fn decode_into(code: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
    let (header, body) = Reader::open(code)?;
    check_values(header.values, out.len())?;
    let decode = match header.codec {
        none::ID => none::decode,
        f16::ID => f16::decode,
        uniform::ID => uniform::decode,
        terngrad::ID => terngrad::decode,
        casq::ID => casq::decode,
        shared::ID => shared::decode,
        other => return Err(DecodeError::Codec(other)),
    };
    decode(header.parameter, body, out)
}

fn check_values(got: u32, expected: usize) -> Result<(), DecodeError> {
    if usize::try_from(got) == Ok(expected) { Ok(()) } else { Err(DecodeError::Values { expected, got }) }
}
