//! Converts the client's errors to Python's exceptions, which `tributary.errors` defines.

use std::io;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tributary_client::{ClientError, Detached, ErrorKind, Regroup};

/// The Python module that defines the exceptions.
const MODULE: &str = "tributary.errors";

/// The kind of call that an error has ended. The exception for a failed precondition depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    /// Joining a job. The precondition fails because the job is over.
    Joining,
    /// An operation on the members' values. The precondition fails because the values have no sum.
    Reducing,
    /// Another call.
    Call,
}

/// Returns the exception for a client's error in a call, with its message.
pub(crate) fn exception(py: Python<'_>, error: &ClientError) -> PyErr {
    exception_during(py, error, During::Call)
}

/// Returns the exception for a client's error in a call of this kind, with its message.
pub(crate) fn exception_during(py: Python<'_>, error: &ClientError, during: During) -> PyErr {
    match details(py, error) {
        Ok(details) => raise(py, class(error, during), &error.to_string(), &details),
        Err(problem) => problem,
    }
}

/// Returns the exception for an error of encoding or decoding.
pub(crate) fn codec_error(py: Python<'_>, error: &impl ToString) -> PyErr {
    raise(py, "CodecError", &error.to_string(), &PyDict::new(py))
}

/// Returns the exception for a call in a forked process.
pub(crate) fn forked_error(py: Python<'_>) -> PyErr {
    let error = "this process was forked from one that takes part in a job, and has no part in it itself, since threads do \
                 not survive a fork: let the parent reduce, or start processes by \"spawn\"";
    raise(py, "TributaryError", error, &PyDict::new(py))
}

/// Returns the exception for a thread that could not be started.
pub(crate) fn thread_error(error: &io::Error) -> PyErr {
    PyRuntimeError::new_err(format!("cannot start a thread: {error}"))
}

/// Makes an exception of a class of `tributary.errors`.
fn raise(py: Python<'_>, class: &str, error: &str, details: &Bound<'_, PyDict>) -> PyErr {
    let made =
        PyModule::import(py, MODULE).and_then(|module| module.getattr(class)?.call((error,), Some(details)));
    match made {
        Ok(made) => PyErr::from_value(made),
        // The package's modules do not match, but the original error matters more.
        Err(problem) => PyRuntimeError::new_err(format!("{error} (and cannot raise it properly: {problem})")),
    }
}

fn class(error: &ClientError, during: During) -> &'static str {
    match error.kind() {
        ErrorKind::AgentUnreachable => "AgentUnreachableError",
        ErrorKind::DeadlinePassed => "DeadlineError",
        ErrorKind::FailedPrecondition => match during {
            During::Joining => "JobOverError",
            During::Reducing => "SumError",
            During::Call => "TributaryError",
        },
        ErrorKind::PermissionDenied => "PermissionDeniedError",
        ErrorKind::JobOver => "JobOverError",
        ErrorKind::JobEnded => "JobEndedError",
        ErrorKind::Regroup => "RegroupError",
        ErrorKind::Detached => "DetachedError",
        ErrorKind::Other => "TributaryError",
    }
}

/// Returns the attributes that an exception has besides its message.
fn details<'py>(py: Python<'py>, error: &ClientError) -> PyResult<Bound<'py, PyDict>> {
    let details = PyDict::new(py);
    match error {
        ClientError::Regroup(Regroup { generation, joined, ranks, leader, shards }) => {
            details.set_item("generation", generation)?;
            details.set_item("ranks", ranks.clone())?;
            details.set_item("joined", joined.clone())?;
            details.set_item("leader", leader)?;
            details.set_item("shards", shards.clone())?;
        }
        ClientError::Detached(Detached { generation, data_adopted, reason }) => {
            details.set_item("generation", generation)?;
            details.set_item("data_adopted", data_adopted)?;
            details.set_item("reason", reason)?;
        }
        _ => {}
    }
    Ok(details)
}

/// Returns the error for a call after the process has left.
pub(crate) fn left() -> ClientError {
    ClientError::JobEnded("this process has left the job".to_owned())
}
