//! Functions that find the cause inside wrapped errors.

use std::error::Error;
use std::io;

/// Returns an error of the type `E` among `error` and its sources.
pub(crate) fn carried<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| {
        // An I/O error displays the error inside it, but does not return it as its source.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inside.and_then(|inside| inside.downcast_ref()).or_else(|| error.downcast_ref())
    })
}

/// Returns the innermost reason of an error. The errors around it, such as tonic's "transport error",
/// only say that an operation failed.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let last = std::iter::successors(Some(error), |error| (*error).source()).last();
    last.unwrap_or(error).to_string()
}
