//! The decoder of all codecs.

use crate::error::DecodeError;
use crate::wire::Reader;
use crate::write::Write;
use crate::{casq, f16, none, one_bit, quantile, shared, terngrad, top, uniform};

/// Decodes a code of `expected` values.
///
/// The code is not trusted. Memory for the values is allocated only if the code has `expected` values, valid fields,
/// and all the bytes that the fields announce.
///
/// # Errors
/// [`DecodeError`], which names the first defect of the code.
pub fn decode(code: &[u8], expected: usize) -> Result<Vec<f32>, DecodeError> {
    let write = open(code, expected)?;
    let mut out = vec![0.0; expected];
    write(&mut out)?;
    Ok(out)
}

/// Writes the values of a code to `out`. The length of `out` must be the number of values.
///
/// # Errors
/// [`DecodeError`], which names the first defect of the code. The contents of `out` are then unspecified.
pub fn decode_into(code: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
    open(code, out.len())?(out)
}

/// Checks everything except the single values. It allocates at most as much memory as the code has.
fn open(code: &[u8], expected: usize) -> Result<Write<'_>, DecodeError> {
    let (header, body) = Reader::open(code)?;
    if usize::try_from(header.values) != Ok(expected) {
        return Err(DecodeError::Values { expected, got: header.values });
    }
    let open = match header.codec {
        none::ID => none::open,
        f16::ID => f16::open,
        uniform::ID => uniform::open,
        terngrad::ID => terngrad::open,
        casq::ID => casq::open,
        shared::ID => shared::open,
        one_bit::ID => one_bit::open,
        top::ID => top::open,
        quantile::ID => quantile::open,
        other => return Err(DecodeError::Codec(other)),
    };
    open(header.parameter, body, expected)
}
