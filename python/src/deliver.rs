//! Delivers the results of operations, and stall reports, to Python on a separate thread.
//!
//! Operations are all-reduces, steps and parts. The delivery may wait a long time for the interpreter's lock,
//! and must not block the client's own thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tributary_client::{ClientError, NotFinite, Reduced, Step, Waiting};

use crate::error::{During, exception_during, thread_error};
use crate::runtime::check_not_forked;

/// A message with its callback.
pub(crate) enum Delivery {
    /// The result of one all-reduce, step or part of a gradient.
    Done {
        /// The callback. It gets the outcome and `None`, or `None` and an exception.
        done: Py<PyAny>,
        outcome: Result<CallResult, ClientError>,
    },
    /// A stall report, which describes the event for which the process waits.
    Waits {
        /// The callback. It gets the text, and `True` if the agent is silent.
        tell: Arc<Py<PyAny>>,
        waiting: Waiting,
    },
}

/// The result of a call.
pub(crate) enum CallResult {
    /// The result of an all-reduce.
    ///
    /// Python gets the runs as tuples `(elements, weight, contributors)`, and the first element that is not
    /// finite with a rank, or `None`.
    Reduced(Reduced),
    /// A step. Python gets a tuple of its fields.
    Step(Step),
    /// The completion of a part, without a value. Python gets `None`.
    Done,
}

/// True once deliveries have ended.
static ENDED: AtomicBool = AtomicBool::new(false);
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
    ENDED.store(true, Ordering::SeqCst);
    py.detach(|| {
        let began = Instant::now();
        // The callback may wait forever, which this function cannot prevent.
        while DELIVERING.is_locked() && began.elapsed() < PATIENCE {
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
    if ENDED.load(Ordering::SeqCst) {
        return Err(PyRuntimeError::new_err("the interpreter is ending: nothing can be started any more"));
    }
    if let Some(sender) = DELIVERIES.get() {
        return Ok(sender.clone());
    }
    let (sender, receiver) = channel();
    let started = thread::Builder::new().name("tributary-done".to_owned()).spawn(move || run(&receiver));
    started.map_err(|error| thread_error(&error))?;
    // If another thread was faster, the thread that this call has started ends at once.
    Ok(DELIVERIES.get_or_init(|| sender).clone())
}

fn run(deliveries: &Receiver<Delivery>) {
    for delivery in deliveries {
        let _delivering = DELIVERING.lock();
        // After the end of deliveries the interpreter is shutting down, and no thread waits for a result.
        if ENDED.load(Ordering::SeqCst) || Python::try_attach(|py| deliver(py, delivery)).is_none() {
            return;
        }
    }
}

fn deliver(py: Python<'_>, delivery: Delivery) {
    match delivery {
        Delivery::Done { done, outcome } => check(py, &done, finish(py, &done, outcome)),
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

fn finish(py: Python<'_>, done: &Py<PyAny>, outcome: Result<CallResult, ClientError>) -> PyResult<Py<PyAny>> {
    match outcome {
        Ok(CallResult::Step(Step { iteration, updates, released_by, in_group })) => {
            done.call1(py, ((iteration, updates, released_by, in_group), py.None()))
        }
        Ok(CallResult::Done) => done.call1(py, (py.None(), py.None())),
        Ok(CallResult::Reduced(Reduced { runs, not_finite, .. })) => {
            let runs: Vec<_> =
                runs.into_iter().map(|run| (run.elements, run.weight, run.contributors)).collect();
            let not_finite =
                not_finite.map(|NotFinite { element, rank, processes }| (element, rank, processes));
            done.call1(py, ((runs, not_finite), py.None()))
        }
        Err(error) => done.call1(py, (py.None(), exception_during(py, &error, During::Reducing))),
    }
}
