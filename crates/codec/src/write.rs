//! Writing the values of a code that a codec has checked.

use crate::error::DecodeError;

/// Writes the values of a code whose fields and length have been checked.
/// The slice must have as many places. Only the values themselves can still be wrong.
pub(crate) type Write<'a> = Box<dyn FnOnce(&mut [f32]) -> Result<(), DecodeError> + 'a>;
