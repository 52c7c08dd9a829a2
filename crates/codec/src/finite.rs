//! Checks that gradients are finite and short enough for a code.

use rayon::prelude::*;

use crate::error::{DecodeError, EncodeError};
use crate::pieces::PIECE;

/// Checks that a gradient can be encoded.
pub(crate) fn check(gradient: &[f32]) -> Result<(), EncodeError> {
    if u32::try_from(gradient.len()).is_err() {
        return Err(EncodeError::TooLong(gradient.len()));
    }
    match first_other(gradient) {
        None => Ok(()),
        Some(position) => Err(EncodeError::NotFinite { position, value: gradient[position] }),
    }
}

/// Checks that decoded values are finite.
pub(crate) fn check_decoded(values: &[f32]) -> Result<(), DecodeError> {
    match first_other(values) {
        None => Ok(()),
        Some(position) => Err(DecodeError::NotFinite { position, value: values[position] }),
    }
}

/// Returns the position of the first value that is not finite.
fn first_other(values: &[f32]) -> Option<usize> {
    let piece = values.par_chunks(PIECE).position_first(has_other)?;
    let start = piece * PIECE;
    values[start..].iter().position(|value| !value.is_finite()).map(|at| start + at)
}

/// Returns true if any value is not finite.
/// It has no early exit, so that it compiles to vector instructions.
fn has_other(values: &[f32]) -> bool {
    values.iter().fold(false, |other, value| other | !value.is_finite())
}
