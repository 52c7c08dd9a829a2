//! A process's membership in a job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use tokio::time::timeout;
use tributary_client::{
    Agent, ClientError, CollectiveCount, CollectiveWay, Decision, ElementType, Gradient, JoinOptions,
    Operation, Profile, ProfileNumber, Regroup, Set,
};

use crate::deliver::{CallResult, Delivery, deliveries, telling};
use crate::error::{During, exception, exception_during, left};
use crate::runtime::{Owned, check_not_forked, runtime, wait};
use crate::schedule::{SetOfGradients, nanoseconds};
use crate::segment::Segment;

/// The time that the agent may take to acknowledge counts of collectives.
const COUNTING: Duration = Duration::from_secs(1);

/// A process's membership in a job.
///
/// If the last reference is dropped without `close`, the host leaves the job.
#[pyclass(frozen, module = "tributary._native")]
#[derive(Debug)]
pub(crate) struct Job(Owned<Mutex<Option<tributary_client::Job>>>);

impl Job {
    fn get(&self, py: Python<'_>) -> PyResult<tributary_client::Job> {
        check_not_forked(py)?;
        let job = self.0.lock();
        job.clone().ok_or_else(|| exception(py, &left()))
    }
}

#[pymethods]
impl Job {
    /// Joins a job through the agent behind `socket`, and waits until all of its members have joined.
    ///
    /// While the process joins, and later while it is a member, a thread of this module reports stalls. It
    /// calls `waits` with the text, and with `True` if the agent is silent. `terms` are: if the process is elastic,
    /// if it may begin a new run, its number among the host's processes in the job, and their number.
    #[staticmethod]
    fn join(
        py: Python<'_>,
        socket: PathBuf,
        job: String,
        token: Vec<u8>,
        terms: (bool, bool, u32, u32),
        deadline: Option<Duration>,
        waits: Py<PyAny>,
    ) -> PyResult<Self> {
        let (elastic, new_run, number, processes) = terms;
        let mut options = JoinOptions::default().process(number, processes).on_waiting(telling(waits));
        if elastic {
            options = options.elastic();
        }
        if new_run {
            options = options.new_run();
        }
        if let Some(deadline) = deadline {
            options = options.deadline(deadline);
        }
        let joining = async move { Agent::connect(&socket).await?.join_with(&job, token, options).await };
        let joined = wait(py, joining)?.map_err(|error| exception_during(py, &error, During::Joining))?;
        Ok(Self(Owned::new(Mutex::new(Some(joined)))))
    }

    /// This process's rank.
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get(py)?.rank())
    }

    /// Ranks of all members at the end of the last all-reduce, ascending.
    #[getter]
    fn ranks(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        Ok(self.get(py)?.ranks())
    }

    /// Ranks that left between the start of this process and its last all-reduce, each with the reason.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<BTreeMap<u32, String>> {
        Ok(self.get(py)?.lost())
    }

    /// Ranks whose data the members process since the start or the last regrouping, ascending.
    #[getter]
    fn shards(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        Ok(self.get(py)?.shards())
    }

    /// The regrouping for which the members must synchronise before they reduce again, if any.
    #[getter]
    fn regroup(&self, py: Python<'_>) -> PyResult<Option<Grouping>> {
        Ok(self.get(py)?.regroup().map(grouping))
    }

    /// Checks that this process was not forked.
    ///
    /// # Errors
    /// This process was forked from the process that joined.
    #[allow(clippy::unused_self, reason = "one asks the job")]
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)
    }

    /// The generation of the job.
    #[getter]
    fn generation(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get(py)?.generation())
    }

    /// This host's name in the topology.
    #[getter]
    fn host(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.host().to_owned())
    }

    /// The number of values in a slice.
    #[getter]
    fn values_per_slice(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get(py)?.values_per_slice())
    }

    /// The number of switches that added the job's gradients when this host joined.
    #[getter]
    fn switches(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.get(py)?.switches())
    }

    /// Makes memory that is shared with the agent.
    ///
    /// `deadline` is the deadline of the operation that needs it.
    #[pyo3(signature = (size, deadline = None))]
    fn segment(&self, py: Python<'_>, size: usize, deadline: Option<Duration>) -> PyResult<Segment> {
        let job = self.get(py)?;
        let made = wait(py, async move { job.segment_within(size, deadline).await })?;
        made.map(Segment::new).map_err(|error| exception(py, &error))
    }

    /// Starts to reduce `count` elements of a segment, from the element `first` on.
    ///
    /// If `root` is given, it broadcasts the elements of this rank, which must be i32. If `parts` are given, it is a
    /// reduce-scatter: each is a number of elements and the rank that receives their sums.
    ///
    /// The all-reduce runs after all all-reduces that were started earlier. When it has ended, a thread of
    /// this module calls `done` with `(runs, None)` or `(None, exception)`.
    #[pyo3(signature = (segment, element_type, first, count, *, name, weight, deadline, step_goes_on, done, root = None, parts = Vec::new()))]
    #[allow(clippy::too_many_arguments, reason = "named where Python calls it")]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes the list for the call")]
    fn start(
        &self,
        py: Python<'_>,
        segment: &Segment,
        element_type: &str,
        first: usize,
        count: usize,
        name: &str,
        weight: u32,
        deadline: Option<Duration>,
        step_goes_on: bool,
        done: Py<PyAny>,
        root: Option<u32>,
        parts: Vec<(u64, u32)>,
    ) -> PyResult<()> {
        let job = self.get(py)?;
        let (runtime, deliveries) = (runtime(py)?, deliveries()?);
        let end =
            first.checked_add(count).ok_or_else(|| PyValueError::new_err("elements beyond all memory"))?;
        let element_type = parse_element_type(element_type)?;
        let elements = Some(first..end);
        let operation =
            Operation { name, element_type, elements, weight, deadline, root, parts: &parts, step_goes_on };
        let started = job.start(&mut segment.lock(), &operation);
        let reduction = started.map_err(|error| exception(py, &error))?;
        runtime.spawn(async move {
            let outcome = reduction.await.map(CallResult::Reduced);
            // Without the delivery thread the interpreter is shutting down.
            let _ = deliveries.send(Delivery::Done { done, outcome });
        });
        Ok(())
    }

    /// Replaces elements on all members by the leader's elements, if the members must synchronise.
    ///
    /// Returns the regrouping; `None` if there was no regrouping.
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes the buffer for the call")]
    fn synchronise(
        &self,
        py: Python<'_>,
        element_type: &str,
        elements: PyBuffer<u8>,
        name: &str,
        deadline: Option<Duration>,
    ) -> PyResult<Option<Grouping>> {
        let job = self.get(py)?;
        let element_type = parse_element_type(element_type)?;
        if job.regroup().is_none() {
            return Ok(None);
        }
        let failed = |error: ClientError| exception_during(py, &error, During::Reducing);
        let making = job.segment_within(elements.len_bytes(), deadline);
        let mut segment = wait(py, making)?.map_err(failed)?;
        elements.copy_to_slice(py, segment.bytes_mut().map_err(failed)?)?;
        let operation = Operation { name, element_type, deadline, ..Operation::whole::<f32>() };
        let regroup = wait(py, job.synchronise(&mut segment, operation))?.map_err(failed)?;
        elements.copy_from_slice(py, segment.bytes().map_err(failed)?)?;
        wait(py, job.release(segment))?.map_err(failed)?;
        Ok(regroup.map(grouping))
    }

    /// Reports the traffic of collectives since the last call to the agent.
    ///
    /// `counts` has tuples `(over the fabric, collective, reason, calls, bytes)`. If `waits` is true, this
    /// call waits for up to a second for the agent's reply; otherwise it ignores the result.
    fn count_collectives(
        &self,
        py: Python<'_>,
        counts: Vec<(bool, String, String, u64, u64)>,
        waits: bool,
    ) -> PyResult<()> {
        let job = self.get(py)?;
        let count = |(over_fabric, collective, reason, calls, bytes)| {
            let way = if over_fabric { CollectiveWay::Fabric } else { CollectiveWay::Gloo };
            CollectiveCount { way: way.into(), collective, reason, calls, bytes }
        };
        let counts = counts.into_iter().map(count).collect();
        let told = async move { job.count_collectives(counts).await };
        if !waits {
            runtime(py)?.spawn(told);
            return Ok(());
        }
        match wait(py, async move { timeout(COUNTING, told).await })? {
            Ok(told) => told.map_err(|error| exception(py, &error)),
            Err(_) => Err(PyTimeoutError::new_err(format!("the agent has not answered in {COUNTING:?}"))),
        }
    }

    /// Sends the times at which this process's gradients were ready, in nanoseconds, and waits for all
    /// members.
    ///
    /// Returns `(version, sets, "")` with sets `(gradients, at, late)`, or `(0, [], reason)` if the profile
    /// was rejected.
    #[pyo3(signature = (run, number, *, sizes, ready, start_up, deadline))]
    #[allow(clippy::too_many_arguments, reason = "named where Python calls it")]
    fn hand_in_profile(
        &self,
        py: Python<'_>,
        run: u64,
        number: u32,
        sizes: Vec<u64>,
        ready: Vec<u64>,
        start_up: u64,
        deadline: Option<Duration>,
    ) -> PyResult<(u32, Vec<SetOfGradients>, String)> {
        let job = self.get(py)?;
        let gradients = sizes.into_iter().zip(ready);
        let gradients =
            gradients.map(|(bytes, ready)| Gradient { bytes, ready: Duration::from_nanos(ready) });
        let profile = Profile { gradients: gradients.collect(), start_up: Duration::from_nanos(start_up) };
        let number = ProfileNumber { run, number };
        let decided = wait(py, async move { job.hand_in_profile(number, &profile, deadline).await })?;
        match decided.map_err(|error| exception(py, &error))? {
            Decision::ThrownOut(reason) => Ok((0, Vec::new(), reason)),
            Decision::Schedule { version, schedule } => {
                let set = |set: Set| (set.gradients, nanoseconds(set.at), nanoseconds(set.late));
                Ok((version, schedule.sets.into_iter().map(set).collect(), String::new()))
            }
        }
    }

    /// Returns the name of the job of a group of this job's ranks.
    fn open_group(&self, py: Python<'_>, group: String, ranks: Vec<u32>) -> PyResult<String> {
        let job = self.get(py)?;
        wait(py, async move { job.open_group(&group, ranks).await })?.map_err(|error| exception(py, &error))
    }

    /// Ends this process's membership. The job continues without its host.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        self.0.lock().take();
        Ok(())
    }

    /// Ends this process's membership. The host stays a member until the job has ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        let job = self.0.lock().take();
        let Some(job) = job else { return Ok(()) };
        wait(py, job.close())?.map_err(|error| exception(py, &error))
    }

    /// Ends this process's membership at the end of its training.
    ///
    /// The job ends when all members have called this.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        let job = self.0.lock().take();
        let Some(job) = job else { return Ok(()) };
        wait(py, job.finish())?.map_err(|error| exception(py, &error))
    }
}

/// The fields of a regrouping: generation, ranks, joined, leader, shards.
type Grouping = (u32, Vec<u32>, Vec<u32>, u32, Vec<u32>);

fn grouping(Regroup { generation, ranks, joined, leader, shards }: Regroup) -> Grouping {
    (generation, ranks, joined, leader, shards)
}

fn parse_element_type(name: &str) -> PyResult<ElementType> {
    match name {
        "f32" => Ok(ElementType::F32),
        "f16" => Ok(ElementType::F16),
        "bf16" => Ok(ElementType::Bf16),
        "i32" => Ok(ElementType::I32),
        "f32_exact" => Ok(ElementType::F32Exact),
        "f16_exact" => Ok(ElementType::F16Exact),
        "bf16_exact" => Ok(ElementType::Bf16Exact),
        "f64" => Ok(ElementType::F64),
        "i64" => Ok(ElementType::I64),
        _ => Err(PyValueError::new_err(format!(
            "element type {name:?}: f32, f16 and bf16, also with _exact, f64, i32 and i64 can be reduced"
        ))),
    }
}
