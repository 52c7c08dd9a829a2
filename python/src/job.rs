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

use crate::call::{Call, CallResult};
use crate::deliver::telling;
use crate::error::{During, exception, exception_during, left};
use crate::memory::{Memory, Pool};
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
pub(crate) struct Job {
    job: Owned<Mutex<Option<tributary_client::Job>>>,
    pool: Owned<Pool>,
}

impl Job {
    fn get(&self, py: Python<'_>) -> PyResult<tributary_client::Job> {
        check_not_forked(py)?;
        let job = self.job.lock();
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
        Ok(Self { job: Owned::new(Mutex::new(Some(joined))), pool: Owned::new(Pool::default()) })
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
    fn segment(&self, py: Python<'_>, size: usize) -> PyResult<Segment> {
        make_segment(py, &self.get(py)?, size, None).map(Segment::new)
    }

    /// Starts to reduce `count` elements.
    ///
    /// If `root` is given, it broadcasts the elements of this rank, which must be i32. If `parts` are given, it is a
    /// reduce-scatter: each is a number of elements and the rank that receives their sums.
    ///
    /// The all-reduce runs after all all-reduces that were started earlier.
    #[pyo3(signature = (memory, element_type, count, *, name, weight, deadline, step_goes_on, root = None, parts = Vec::new()))]
    #[allow(clippy::too_many_arguments, reason = "named where Python calls it")]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes the list for the call")]
    fn start(
        &self,
        py: Python<'_>,
        memory: Memory<'_>,
        element_type: &str,
        count: usize,
        name: &str,
        weight: u32,
        deadline: Option<Duration>,
        step_goes_on: bool,
        root: Option<u32>,
        parts: Vec<(u64, u32)>,
    ) -> PyResult<Call> {
        let job = self.get(py)?;
        let element_type = parse_element_type(element_type)?;
        let mut memory = memory.readable(py, &self.pool, |bytes| make_segment(py, &job, bytes, deadline))?;
        Call::start(py, |ended| {
            let started = memory.with(count, |segment, elements| {
                let elements = Some(elements);
                let operation = Operation {
                    name,
                    element_type,
                    elements,
                    weight,
                    deadline,
                    root,
                    parts: &parts,
                    step_goes_on,
                };
                job.start_with(segment, &operation, |outcome| ended(outcome.map(CallResult::Reduced)))
            })?;
            started.map_err(|error| exception(py, &error))?;
            Ok(memory.copied().into_iter().collect())
        })
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
        self.job.lock().take();
        Ok(())
    }

    /// Ends this process's membership. The host stays a member until the job has ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        let job = self.job.lock().take();
        let Some(job) = job else { return Ok(()) };
        wait(py, job.close())?.map_err(|error| exception(py, &error))
    }

    /// Ends this process's membership at the end of its training.
    ///
    /// The job ends when all members have called this.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        check_not_forked(py)?;
        let job = self.job.lock().take();
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

/// Makes memory that is shared with the agent, for an operation with this deadline.
fn make_segment(
    py: Python<'_>,
    job: &tributary_client::Job,
    bytes: usize,
    deadline: Option<Duration>,
) -> PyResult<tributary_client::Segment> {
    wait(py, job.segment_within(bytes, deadline))?.map_err(|error| exception(py, &error))
}
