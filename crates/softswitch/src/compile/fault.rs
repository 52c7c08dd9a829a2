//! Functions that make the errors with which the compiler refuses a program.

use crate::error::LoadError;

/// Returns the error of a program that contradicts itself.
pub(super) fn malformed(place: &str, problem: impl Into<String>) -> LoadError {
    LoadError::Malformed { place: place.to_owned(), problem: problem.into() }
}

/// Returns the error of a program that uses something that this switch does not support.
pub(super) fn unsupported(place: &str, what: impl Into<String>) -> LoadError {
    LoadError::Unsupported { place: place.to_owned(), what: what.into() }
}

/// Returns the error of a program that has too many objects of a kind.
pub(super) fn too_many(place: &str, what: &str) -> LoadError {
    unsupported(place, format!("a program with so many {what}"))
}
