//! Hands what has come of all-reduces and steps to Python, from a thread of its own: the interpreter's lock may be long in coming, and
//! the client's own thread has to go on.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tributary_client::{ClientError, Reduced, Step};

use crate::error::exception;

/// What has come of one all-reduce or step, and who is to know.
pub(crate) struct Delivery {
    /// Called with the outcome and `None`, or with `None` and an exception.
    pub(crate) done: Py<PyAny>,
    pub(crate) outcome: Result<Outcome, ClientError>,
}

/// What has come of something.
pub(crate) enum Outcome {
    /// Runs, for Python tuples `(elements, weight, contributors)`.
    Reduced(Reduced),
    /// A step, for Python a tuple of its fields.
    Step(Step),
}

/// Where deliveries are handed in.
///
/// # Errors
/// No thread can be started.
pub(crate) fn deliveries() -> PyResult<Sender<Delivery>> {
    static DELIVERIES: OnceLock<Sender<Delivery>> = OnceLock::new();
    if let Some(sender) = DELIVERIES.get() {
        return Ok(sender.clone());
    }
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("tributary-done".to_owned()).spawn(move || run(&receiver));
    started.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    // Another thread may have been quicker; then the one that was just started ends at once.
    Ok(DELIVERIES.get_or_init(|| sender).clone())
}

fn run(deliveries: &Receiver<Delivery>) {
    for Delivery { done, outcome } in deliveries {
        let delivered = Python::try_attach(|py| deliver(py, &done, outcome));
        if delivered.is_none() {
            // The interpreter is on its way out, and nobody waits any more.
            return;
        }
    }
}

fn deliver(py: Python<'_>, done: &Py<PyAny>, outcome: Result<Outcome, ClientError>) {
    let called = match outcome {
        Ok(Outcome::Step(Step { iteration, updates, released_by, in_group })) => {
            done.call1(py, ((iteration, updates, released_by, in_group), py.None()))
        }
        Ok(Outcome::Reduced(Reduced { runs, .. })) => {
            let runs: Vec<_> =
                runs.into_iter().map(|run| (run.elements, run.weight, run.contributors)).collect();
            done.call1(py, (runs, py.None()))
        }
        Err(error) => done.call1(py, (py.None(), exception(py, &error))),
    };
    if let Err(error) = called {
        error.write_unraisable(py, Some(done.bind(py)));
    }
}
