//! The function type with which a codec writes the values of a checked code.

use crate::error::DecodeError;

/// A function that writes the values of a code.
/// The fields and the length of the code have been checked.
/// The slice must have room for exactly these values. The function can still fail because of a wrong value.
pub(crate) type Write<'a> = Box<dyn FnOnce(&mut [f32]) -> Result<(), DecodeError> + 'a>;
