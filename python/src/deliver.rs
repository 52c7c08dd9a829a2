//! Calls Python's functions at the end of calls and for stall reports, on a separate thread.
//!
//! A delivery may wait a long time for the interpreter's lock, and must not block the client's own thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tributary_client::Waiting;

use crate::error::thread_error;
use crate::runtime::{check_not_forked, end_of_interpreter, has_ended};

/// A message to Python.
pub(crate) enum Delivery {
    /// The end of a call, with the functions to call.
    Ended(Vec<Py<PyAny>>),
    /// A stall report, which describes the event for which the process waits.
    Waits {
        /// The callback. It gets the text, and `True` if the agent is silent.
        tell: Arc<Py<PyAny>>,
        waiting: Waiting,
    },
}

/// The lock that the thread holds during a delivery.
static DELIVERING: Mutex<()> = Mutex::new(());
/// The longest time for which the interpreter's end waits for a delivery in progress.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval between two checks of the delivery in progress.
const LOOK: Duration = Duration::from_millis(1);

/// Ends all deliveries.
///
/// The package must call this before the interpreter ends. Otherwise the interpreter would end a thread in
/// the middle of Python code, which ends the process (SIGABRT).
#[pyfunction]
pub(crate) fn end_deliveries(py: Python<'_>) {
    if check_not_forked(py).is_err() {
        return;
    }
    let returning = end_of_interpreter();
    py.detach(|| {
        let began = Instant::now();
        // The callback may wait forever, which this function cannot prevent.
        while (DELIVERING.is_locked() || returning()) && began.elapsed() < PATIENCE {
            thread::sleep(LOOK);
        }
    });
}

/// Returns the sender for deliveries. The first call starts the thread.
///
/// # Errors
/// The thread cannot be started, or the interpreter is shutting down.
pub(crate) fn deliveries() -> PyResult<Sender<Delivery>> {
    static DELIVERIES: OnceLock<Sender<Delivery>> = OnceLock::new();
    check_not_ending()?;
    if let Some(sender) = DELIVERIES.get() {
        return Ok(sender.clone());
    }
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("tributary-done".to_owned()).spawn(move || run(&receiver));
    started.map_err(|error| thread_error(&error))?;
    // If another thread was faster, the thread that this call has started ends at once.
    Ok(DELIVERIES.get_or_init(|| sender).clone())
}

/// Checks that the interpreter is not shutting down.
pub(crate) fn check_not_ending() -> PyResult<()> {
    let ending = || PyRuntimeError::new_err("the interpreter is ending: nothing can be started any more");
    if has_ended() { Err(ending()) } else { Ok(()) }
}

fn run(deliveries: &Receiver<Delivery>) {
    for delivery in deliveries {
        let _delivering = DELIVERING.lock();
        // After the end of deliveries the interpreter is shutting down, and no thread waits for a result.
        if has_ended() || Python::try_attach(|py| deliver(py, delivery)).is_none() {
            return;
        }
    }
}

fn deliver(py: Python<'_>, delivery: Delivery) {
    match delivery {
        Delivery::Ended(calls) => calls.iter().for_each(|ended| check(py, ended, ended.call0(py))),
        Delivery::Waits { tell, waiting: Waiting { what, agent_is_silent, .. } } => {
            check(py, &tell, tell.call1(py, (what, agent_is_silent)));
        }
    }
}

/// Returns a function that makes the delivery thread call `tell`.
pub(crate) fn telling(tell: Py<PyAny>) -> impl Fn(&Waiting) + Send + Sync + 'static {
    let tell = Arc::new(tell);
    move |waiting| {
        // Without the delivery thread the interpreter is shutting down.
        if let Ok(deliveries) = deliveries() {
            let (tell, waiting) = (Arc::clone(&tell), waiting.clone());
            let _ = deliveries.send(Delivery::Waits { tell, waiting });
        }
    }
}

/// Reports an exception of a callback as unraisable, because the callback has no caller in Python.
fn check(py: Python<'_>, callback: &Py<PyAny>, called: PyResult<Py<PyAny>>) {
    if let Err(error) = called {
        error.write_unraisable(py, Some(callback.bind(py)));
    }
}
