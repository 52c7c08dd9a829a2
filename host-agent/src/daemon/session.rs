//! A training process's use of a job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use tonic::Status;
use tributary_api::agent::{SegmentName, v1};
use tributary_protocol::{AllReduce, CollectiveError, Reduced};

use super::member::{Member, Running};
use super::segment::{ElementType, Place, Segment};
use crate::error::AgentError;

/// Segments that one process may have open: each holds a file descriptor of the agent.
const MAX_SEGMENTS: usize = 256;

/// What stands for a session in calls: 128 random bits.
pub(crate) type SessionId = [u8; 16];

/// One process's use of one job.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) member: Arc<Member>,
    /// The user that the process belongs to.
    owner: u32,
    segments: Mutex<Segments>,
    /// Held by the all-reduce that is under way; those that wait get it in the order of their calls.
    turn: Arc<AsyncMutex<()>>,
}

#[derive(Debug, Default)]
struct Segments {
    open: BTreeMap<u32, Arc<Segment>>,
    opened: u32,
}

impl Session {
    pub(crate) fn new(member: Arc<Member>, owner: u32) -> Self {
        Self { member, owner, segments: Mutex::default(), turn: Arc::default() }
    }

    pub(crate) fn open_segment(&self, name: &str, bytes: u64) -> Result<u32, Status> {
        let name: SegmentName = name.parse().map_err(|error| Status::invalid_argument(format!("{error}")))?;
        let mut segments = self.segments();
        if segments.open.len() >= MAX_SEGMENTS {
            let problem =
                format!("a process may have {MAX_SEGMENTS} segments: close one, or put more into one");
            return Err(Status::resource_exhausted(problem));
        }
        let segment = Arc::new(Segment::open(&name, self.owner, bytes)?);
        let id = segments.opened;
        segments.opened =
            id.checked_add(1).ok_or_else(|| Status::resource_exhausted("no numbers are left"))?;
        segments.open.insert(id, segment);
        Ok(id)
    }

    pub(crate) fn close_segment(&self, id: u32) -> Result<(), Status> {
        self.segments().open.remove(&id).map(drop).ok_or_else(|| no_segment(id))
    }

    /// Whether no all-reduce is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.turn.try_lock().is_ok()
    }

    pub(crate) async fn all_reduce(
        &self,
        request: v1::AllReduceRequest,
    ) -> Result<v1::AllReduceResponse, Status> {
        let running = self.member.running()?;
        let segment = self.segment(request.segment)?;
        let place = segment.place(request.offset, element_type(request.element_type)?, request.count)?;
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let agent = Arc::clone(&running);
        // The turn ends with the work, not with the caller's patience.
        let work = move || {
            let reduced = reduce(&agent, &segment, place, request.name, request.weight);
            drop(turn);
            reduced
        };
        let reduced = tokio::task::spawn_blocking(work).await;
        match reduced.map_err(|error| Status::internal(error.to_string()))? {
            Ok(reduced) => Ok(response(&reduced)),
            Err(ReduceError::Segment(error)) => {
                Err(Status::failed_precondition(format!("the segment cannot be used any more: {error}")))
            }
            Err(ReduceError::Agent(error)) => {
                if matches!(error, AgentError::Collective(CollectiveError::WrongSum { .. })) {
                    running.report_fault(&error.to_string()).await;
                }
                Err(agent_status(&error))
            }
        }
    }

    fn segment(&self, id: u32) -> Result<Arc<Segment>, Status> {
        self.segments().open.get(&id).cloned().ok_or_else(|| no_segment(id))
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        // Each change is one call that leaves it sound.
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an all-reduce has no result.
#[derive(Debug, thiserror::Error)]
enum ReduceError {
    #[error(transparent)]
    Segment(#[from] std::io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Blocks until the result is in its place.
fn reduce(
    running: &Running,
    segment: &Segment,
    place: Place,
    name: String,
    weight: u32,
) -> Result<Reduced, ReduceError> {
    let data = segment.read(place)?;
    let reduced = running.agent.all_reduce(AllReduce { name, data, weight })?;
    segment.write(place, &reduced.sums)?;
    Ok(reduced)
}

fn response(reduced: &Reduced) -> v1::AllReduceResponse {
    let run = |run: &tributary_protocol::Run| v1::Run {
        elements: run.len as u64,
        weight: run.weight,
        contributors: run.contributors,
    };
    v1::AllReduceResponse { runs: reduced.runs.iter().map(run).collect() }
}

fn element_type(number: i32) -> Result<ElementType, Status> {
    match v1::ElementType::try_from(number) {
        Ok(v1::ElementType::F32) => Ok(ElementType::F32),
        Ok(v1::ElementType::F16) => Ok(ElementType::F16),
        Ok(v1::ElementType::Bf16) => Ok(ElementType::BF16),
        Ok(v1::ElementType::I32) => Ok(ElementType::I32),
        Ok(v1::ElementType::Unspecified) => Err(Status::invalid_argument("the element type is missing")),
        Err(_) => Err(Status::invalid_argument(format!("element type {number} is unknown to this agent"))),
    }
}

fn no_segment(id: u32) -> Status {
    Status::invalid_argument(format!("segment {id} is not open in this session"))
}

/// In the API's terms.
pub(super) fn agent_status(error: &AgentError) -> Status {
    let message = error.to_string();
    match error {
        AgentError::Collective(_) => Status::failed_precondition(message),
        AgentError::Refused(_) => Status::invalid_argument(message),
        AgentError::Ended { .. } => Status::aborted(message),
        AgentError::OtherRole { .. }
        | AgentError::Config(_)
        | AgentError::Frame(_)
        | AgentError::System { .. }
        | AgentError::UdpPort { .. }
        | AgentError::Link(_) => Status::internal(message),
    }
}
