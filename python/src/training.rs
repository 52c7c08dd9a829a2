//! A process's membership in a parameter server's job.
#![allow(clippy::needless_pass_by_value, reason = "what Python hands over")]

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tributary_client::{Agent, ClientError, Observer, TrainingOptions};

use crate::call::{Call, CallResult};
use crate::deliver::telling;
use crate::error::{exception, left};
use crate::memory::{Memory, Pool, Readable};
use crate::runtime::{Owned, check_not_forked, wait};
use crate::segment::Segment;

/// The memory of f32 values, and their number.
type Values<'py> = (Memory<'py>, usize);

/// A process's membership in a parameter server's job.
///
/// When the last reference is dropped, the worker leaves the job.
#[pyclass(frozen, module = "tributary._native")]
#[derive(Debug)]
pub(crate) struct Training {
    training: Owned<Mutex<Option<tributary_client::Training>>>,
    pool: Owned<Pool>,
}

impl Training {
    fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&tributary_client::Training) -> Result<T, ClientError>,
    ) -> PyResult<T> {
        check_not_forked(py)?;
        self.act(act).map_err(|error| exception(py, &error))
    }

    fn act<T>(
        &self,
        act: impl FnOnce(&tributary_client::Training) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let training = self.training.lock();
        training.as_ref().ok_or_else(left).and_then(act)
    }

    fn make_segment(&self, py: Python<'_>, bytes: usize) -> PyResult<tributary_client::Segment> {
        let making = self.with(py, |training| Ok(training.segment(bytes)))?;
        wait(py, making)?.map_err(|error| exception(py, &error))
    }

    fn readable<'py>(
        &self,
        py: Python<'py>,
        (memory, count): Values<'py>,
    ) -> PyResult<(Readable<'py>, usize)> {
        check_not_forked(py)?;
        Ok((memory.readable(py, &self.pool, |bytes| self.make_segment(py, bytes))?, count))
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
        Ok(Self { training: Owned::new(Mutex::new(Some(opened))), pool: Owned::new(Pool::default()) })
    }

    /// This host's name in the topology.
    #[getter]
    fn host(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |training| Ok(training.host().to_owned()))
    }

    /// Makes memory that is shared with the agent.
    fn segment(&self, py: Python<'_>, size: usize) -> PyResult<Segment> {
        self.make_segment(py, size).map(Segment::new)
    }

    /// Joins the job with these parameters, and waits for the first step.
    fn begin(&self, py: Python<'_>, parameters: Values<'_>) -> PyResult<Call> {
        let (mut memory, count) = self.readable(py, parameters)?;
        let step = memory.with(count, |segment, elements| {
            self.act(|training| training.start_begin((segment, elements)))
        })?;
        let step = step.map_err(|error| exception(py, &error))?;
        Call::follow(py, step, CallResult::Step, [memory.copied()])
    }

    /// Pushes a gradient, or the last part of it, and waits for the next step.
    ///
    /// The first value belongs to the parameter `first`. The step's parameters are written to `parameters`, which is in another segment.
    fn push(
        &self,
        py: Python<'_>,
        gradient: Values<'_>,
        first: usize,
        parameters: Values<'_>,
    ) -> PyResult<Call> {
        let ((mut gradient, given), (mut parameters, taken)) =
            (self.readable(py, gradient)?, self.readable(py, parameters)?);
        if let (Readable::Shared(gradient, _), Readable::Shared(parameters, _)) = (&gradient, &parameters)
            && gradient.is(parameters)
        {
            return Err(PyValueError::new_err("gradient and parameters are in one segment: use two"));
        }
        let step = gradient.with(given, |gradient, given| {
            parameters.with(taken, |parameters, taken| {
                self.act(|training| training.start_push_rest((gradient, given), first, (parameters, taken)))
            })
        })??;
        let step = step.map_err(|error| exception(py, &error))?;
        Call::follow(py, step, CallResult::Step, [gradient.copied(), parameters.copied()])
    }

    /// Pushes a part of the next gradient, and waits until the agent has read it.
    ///
    /// The first value belongs to the parameter `first`.
    fn push_part(&self, py: Python<'_>, part: Values<'_>, first: usize) -> PyResult<Call> {
        let (mut memory, count) = self.readable(py, part)?;
        let pushed = memory.with(count, |segment, elements| {
            self.act(|training| training.start_push_part((segment, elements), first))
        })?;
        let pushed = pushed.map_err(|error| exception(py, &error))?;
        Call::follow(py, pushed, |()| CallResult::Done, [memory.copied()])
    }

    /// Drops the parts that were pushed for the next gradient.
    fn drop_parts(&self, py: Python<'_>) -> PyResult<()> {
        let dropping = self.with(py, |training| Ok(training.start_drop_parts()))?;
        wait(py, dropping)?.map_err(|error| exception(py, &error))
    }

    /// Leaves the job.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        self.training.lock().take();
        Ok(())
    }
}
