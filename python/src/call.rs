//! Calls to the agent that are under way, and their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::task::spawn_blocking;
use tributary_client::{ClientError, NotFinite, Reduced, Step};

use crate::deliver::{Delivery, check_not_ending, deliveries};
use crate::error::{During, exception_during};
use crate::memory::{COPIED_AT_ONCE, Copied};
use crate::runtime::{Owned, SIGNALS, check_not_forked, detached, runtime};

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

/// A call to the agent that is under way: an all-reduce, a step or a part of a gradient.
///
/// It ends when the result is in the caller's memory, without the interpreter's lock.
#[pyclass(frozen, module = "tributary._native")]
pub(crate) struct Call(Owned<UnderWay>);

/// A function that gets the outcome of a call.
pub(crate) type Ended = Box<dyn FnOnce(Result<CallResult, ClientError>) + Send>;

#[derive(Default)]
struct UnderWay {
    /// The copies of values for which the call has a result.
    copies: Mutex<Vec<Copied>>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Arc<Result<CallResult, ClientError>>>,
    /// The functions to call at the end.
    calls: Vec<Py<PyAny>>,
}

impl Call {
    /// Starts a call by `start`, which gets a function to call with the outcome in the runtime.
    ///
    /// `start` returns the copies of values for which the call has a result.
    pub(crate) fn start(
        py: Python<'_>,
        start: impl FnOnce(Ended) -> PyResult<Vec<Copied>>,
    ) -> PyResult<Self> {
        runtime(py)?;
        check_not_ending()?;
        let call = Self(Owned::new(UnderWay::default()));
        let under_way = call.0.share();
        // The lock makes the end wait for the copies.
        let mut copies = call.0.copies.lock();
        *copies = start(Box::new(move |outcome| under_way.end(outcome)))?;
        drop(copies);
        Ok(call)
    }

    /// Waits for an answer in the background.
    pub(crate) fn follow<T: 'static>(
        py: Python<'_>,
        answer: impl Future<Output = Result<T, ClientError>> + Send + 'static,
        result: impl FnOnce(T) -> CallResult + Send + 'static,
        copies: impl IntoIterator<Item = Option<Copied>>,
    ) -> PyResult<Self> {
        let runtime = runtime(py)?;
        Self::start(py, |ended| {
            runtime.spawn(async move { ended(answer.await.map(result)) });
            Ok(copies.into_iter().flatten().collect())
        })
    }
}

fn take_results(copies: Vec<Copied>) {
    for mut copied in copies {
        copied.take_result();
    }
}

impl UnderWay {
    /// Stores the result, and ends the call. Must be called in the runtime.
    fn end(self: Arc<Self>, outcome: Result<CallResult, ClientError>) {
        let mut copies = std::mem::take(&mut *self.copies.lock());
        if outcome.is_err() {
            copies.clear();
        }
        if copies.iter().map(Copied::result_bytes).sum::<usize>() <= COPIED_AT_ONCE {
            take_results(copies);
            self.end_with(outcome);
        } else {
            // The runtime's thread must not wait for a long copy.
            spawn_blocking(move || {
                take_results(copies);
                self.end_with(outcome);
            });
        }
    }

    fn end_with(&self, outcome: Result<CallResult, ClientError>) {
        let calls = {
            let mut state = self.state.lock();
            state.outcome = Some(Arc::new(outcome));
            std::mem::take(&mut state.calls)
        };
        self.ended.notify_all();
        if !calls.is_empty()
            // Without the delivery thread the interpreter is shutting down.
            && let Ok(deliveries) = deliveries()
        {
            let _ = deliveries.send(Delivery::Ended(calls));
        }
    }

    /// Waits for the end, up to `time`. Returns true if the call has ended.
    fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if state.outcome.is_none() {
            self.ended.wait_for(&mut state, time);
        }
        state.outcome.is_some()
    }
}

#[pymethods]
impl Call {
    /// Returns true if the call has ended, successfully or not.
    fn has_ended(&self, py: Python<'_>) -> PyResult<bool> {
        check_not_forked(py)?;
        Ok(self.0.state.lock().outcome.is_some())
    }

    /// Waits for the end, up to `seconds` if given. Returns true if the call has ended.
    #[pyo3(signature = (seconds = None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        check_not_forked(py)?;
        let until = seconds.and_then(|seconds| {
            // A time that is too long for the clock does not limit the wait.
            Instant::now().checked_add(Duration::try_from_secs_f64(seconds.max(0.0)).ok()?)
        });
        loop {
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if detached(py, || self.0.wait(rest.map_or(SIGNALS, |rest| rest.min(SIGNALS)))) {
                return Ok(true);
            }
            if rest.is_some_and(|rest| rest.is_zero()) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    /// Returns the result of the ended call, or raises its error.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        check_not_forked(py)?;
        // The lock is released before Python's code runs: that may wait for the interpreter's lock, whose owner may
        // wait for this lock.
        let outcome = self.0.state.lock().outcome.clone();
        let outcome = outcome.ok_or_else(|| PyRuntimeError::new_err("the call has not ended"))?;
        let result = outcome.as_ref().as_ref();
        let result = result.map_err(|error| exception_during(py, error, During::Reducing))?;
        let result = match result {
            CallResult::Step(Step { iteration, updates, released_by, in_group }) => {
                (*iteration, *updates, *released_by, *in_group).into_pyobject(py)?.into_any()
            }
            CallResult::Done => py.None().into_bound(py),
            CallResult::Reduced(Reduced { runs, not_finite, .. }) => {
                let runs: Vec<_> =
                    runs.iter().map(|run| (run.elements, run.weight, run.contributors)).collect();
                let not_finite =
                    not_finite.map(|NotFinite { element, rank, processes }| (element, rank, processes));
                (runs, not_finite).into_pyobject(py)?.into_any()
            }
        };
        Ok(result.unbind())
    }

    /// Makes a thread of this module call `ended` when the call has ended.
    fn on_end(&self, py: Python<'_>, ended: Py<PyAny>) -> PyResult<()> {
        check_not_forked(py)?;
        let deliveries = deliveries()?;
        let mut state = self.0.state.lock();
        match state.outcome {
            // Without the delivery thread the interpreter is shutting down.
            Some(_) => drop(deliveries.send(Delivery::Ended(vec![ended]))),
            None => state.calls.push(ended),
        }
        Ok(())
    }
}
