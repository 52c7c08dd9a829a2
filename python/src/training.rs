//! A process's membership in a parameter server's job.
#![allow(clippy::needless_pass_by_value, reason = "what Python hands over")]

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tributary_client::{Agent, ClientError, Observer, TrainingOptions};

use crate::deliver::{CallResult, Delivery, deliveries, telling};
use crate::error::{exception, left};
use crate::runtime::{Owned, check_not_forked, runtime, wait};
use crate::segment::Segment;

/// The location of f32 values: their segment, the index of the first value, and the number of values.
type Place<'py> = (Bound<'py, Segment>, usize, usize);

/// A process's membership in a parameter server's job.
///
/// When the last reference is dropped, the worker leaves the job.
#[pyclass(frozen, module = "tributary._native")]
#[derive(Debug)]
pub(crate) struct Training(Owned<Mutex<Option<tributary_client::Training>>>);

impl Training {
    fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&tributary_client::Training) -> Result<T, ClientError>,
    ) -> PyResult<T> {
        check_not_forked(py)?;
        let training = self.0.lock();
        let acted = training.as_ref().ok_or_else(left).and_then(act);
        acted.map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl Training {
    /// Opens a training through the agent behind `socket`. The method `begin` then joins the job.
    ///
    /// A thread of this module reports stalls in the same way as for `Job.join`.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn open(
        py: Python<'_>,
        socket: PathBuf,
        job: String,
        token: Vec<u8>,
        worker: u16,
        servers: Vec<String>,
        codec: String,
        parameters_codec: String,
        patience: Option<Duration>,
        workers: Option<NonZeroU16>,
        settings: String,
        waits: Py<PyAny>,
    ) -> PyResult<Self> {
        let options = TrainingOptions {
            servers,
            job,
            token,
            worker,
            workers,
            settings,
            codec,
            parameters_codec,
            patience,
            observer: Observer::new(telling(waits)),
        };
        let opening = async move { Agent::connect(&socket).await?.train(options).await };
        let opened = wait(py, opening)?.map_err(|error| exception(py, &error))?;
        Ok(Self(Owned::new(Mutex::new(Some(opened)))))
    }

    /// This host's name in the topology.
    #[getter]
    fn host(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |training| Ok(training.host().to_owned()))
    }

    /// Makes memory that is shared with the agent.
    fn segment(&self, py: Python<'_>, size: usize) -> PyResult<Segment> {
        let making = self.with(py, |training| Ok(training.segment(size)))?;
        wait(py, making)?.map(Segment::new).map_err(|error| exception(py, &error))
    }

    /// Joins the job with these parameters.
    ///
    /// When the first step arrives, a thread of this module calls `done` with `(step, None)`. After an error,
    /// it calls `done` with `(None, exception)`.
    fn begin(&self, py: Python<'_>, parameters: Place<'_>, done: Py<PyAny>) -> PyResult<()> {
        let (segment, first, count) = parameters;
        let elements = first..end(first, count)?;
        let step = self.with(py, |training| training.start_begin((&mut segment.get().lock(), elements)))?;
        deliver(py, step, CallResult::Step, done)
    }

    /// Pushes a gradient, or the last part of it, whose first value belongs to the parameter `first`.
    ///
    /// The parameters of the next step are written to `parameters`, which is in another segment. `done` is
    /// called as for `begin`.
    fn push(
        &self,
        py: Python<'_>,
        gradient: Place<'_>,
        first: usize,
        parameters: Place<'_>,
        done: Py<PyAny>,
    ) -> PyResult<()> {
        if gradient.0.is(&parameters.0) {
            return Err(PyValueError::new_err("gradient and parameters are in one segment: use two"));
        }
        let (given, taken) =
            (gradient.1..end(gradient.1, gradient.2)?, parameters.1..end(parameters.1, parameters.2)?);
        let step = self.with(py, |training| {
            let (mut gradient, mut parameters) = (gradient.0.get().lock(), parameters.0.get().lock());
            training.start_push_rest((&mut gradient, given), first, (&mut parameters, taken))
        })?;
        deliver(py, step, CallResult::Step, done)
    }

    /// Pushes a part of the next gradient, whose first value belongs to the parameter `first`.
    ///
    /// `done` is called with `(None, None)` when the agent has read the part, or with `(None, exception)`.
    fn push_part(&self, py: Python<'_>, part: Place<'_>, first: usize, done: Py<PyAny>) -> PyResult<()> {
        let (segment, begin, count) = part;
        let elements = begin..end(begin, count)?;
        let pushed =
            self.with(py, |training| training.start_push_part((&mut segment.get().lock(), elements), first))?;
        deliver(py, pushed, |()| CallResult::Done, done)
    }

    /// Drops the parts that were pushed for the next gradient.
    fn drop_parts(&self, py: Python<'_>) -> PyResult<()> {
        let dropping = self.with(py, |training| Ok(training.start_drop_parts()))?;
        wait(py, dropping)?.map_err(|error| exception(py, &error))
    }

    /// Leaves the job.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        self.0.lock().take();
        Ok(())
    }
}

fn end(first: usize, count: usize) -> PyResult<usize> {
    first.checked_add(count).ok_or_else(|| PyValueError::new_err("values beyond all memory"))
}

/// Delivers the result of `coming` to `done`.
fn deliver<T: 'static>(
    py: Python<'_>,
    coming: impl Future<Output = Result<T, ClientError>> + Send + 'static,
    outcome: impl FnOnce(T) -> CallResult + Send + 'static,
    done: Py<PyAny>,
) -> PyResult<()> {
    let (runtime, deliveries) = (runtime(py)?, deliveries()?);
    runtime.spawn(async move {
        let outcome = coming.await.map(outcome);
        // Without the delivery thread the interpreter is shutting down.
        let _ = deliveries.send(Delivery::Done { done, outcome });
    });
    Ok(())
}
