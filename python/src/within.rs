//! Calls that may never return.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::thread_error;

/// Calls `call` on a new thread, and waits up to `seconds` for its return.
///
/// Returns true if it has returned. An exception in it is printed. The thread is a native thread, because
/// Python starts no threads while the interpreter is about to end.
#[pyfunction]
pub(crate) fn call_within(py: Python<'_>, call: Py<PyAny>, seconds: f64) -> PyResult<bool> {
    let patience = Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{seconds} s: {error}")))?;
    let (returned, has_returned) = channel::<()>();
    let run = move || {
        Python::try_attach(|py| {
            if let Err(error) = call.call0(py) {
                error.write_unraisable(py, Some(call.bind(py)));
            }
        });
        drop(returned);
    };
    let started = thread::Builder::new().name("tributary-call".to_owned()).spawn(run);
    started.map_err(|error| thread_error(&error))?;
    let waited = py.detach(move || has_returned.recv_timeout(patience));
    Ok(waited == Err(RecvTimeoutError::Disconnected))
}
