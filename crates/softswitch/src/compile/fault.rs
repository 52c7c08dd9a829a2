//! Short ways to refuse a program.

use crate::error::LoadError;

/// The program contradicts itself.
pub(super) fn malformed(place: &str, problem: impl Into<String>) -> LoadError {
    LoadError::Malformed { place: place.to_owned(), problem: problem.into() }
}

/// The program uses something that this switch does not support.
pub(super) fn unsupported(place: &str, what: impl Into<String>) -> LoadError {
    LoadError::Unsupported { place: place.to_owned(), what: what.into() }
}

/// The program is beyond any sensible size.
pub(super) fn too_many(place: &str, what: &str) -> LoadError {
    unsupported(place, format!("a program with so many {what}"))
}
