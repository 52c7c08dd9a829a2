//! Looks inside wrapped errors.

use std::error::Error;
use std::io;

/// An error of the type `E` among `error` and its sources.
pub(crate) fn carried<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| {
        // An I/O error is not the source of the error that it carries, but passes for it.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inside.and_then(|inside| inside.downcast_ref()).or_else(|| error.downcast_ref())
    })
}

/// The innermost reason: the errors around it, such as tonic's "transport error", only say that
/// something went wrong.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let last = std::iter::successors(Some(error), |error| (*error).source()).last();
    last.unwrap_or(error).to_string()
}
