//! A training process's use of a job's all-reduces.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{AllReduce, Reduced};

use super::member::Member;
use super::memory;
use super::messages;
use super::running::Running;
use super::segment::{ElementType, Place, Segment};
use super::segments::{self, Segments};
use crate::error::AgentError;
use crate::worker::{Outcome, Reduction, Terms};

/// One process's use of one job.
#[derive(Debug)]
pub(crate) struct Reducing {
    pub(crate) member: Arc<Member>,
    /// Held by the all-reduce that is under way; those that wait get it in the order of their calls.
    turn: Arc<AsyncMutex<()>>,
}

impl Reducing {
    pub(crate) fn new(member: Arc<Member>) -> Self {
        Self { member, turn: Arc::default() }
    }

    /// Whether no all-reduce is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.turn.try_lock().is_ok()
    }

    pub(crate) async fn all_reduce(
        &self,
        segments: &Segments,
        request: v1::AllReduceRequest,
    ) -> Result<v1::AllReduceResponse, Status> {
        let running = self.member.running()?;
        let element_type = element_type(request.element_type)?;
        let (segment, place) =
            segments.place(request.segment, request.offset, element_type, request.count)?;
        let milliseconds = Some(request.deadline_milliseconds).filter(|milliseconds| *milliseconds > 0);
        let deadline = milliseconds.map(Duration::from_millis);
        let terms = Terms { deadline, regroup: request.regroup_generation };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let held = memory::hold(place.bytes())?;
        let agent = Arc::clone(&running);
        // The turn ends with the work, not with the caller's patience.
        let work = move || {
            let reduced = reduce(&agent, &segment, place, (request.name, request.weight), terms);
            drop((held, turn));
            reduced
        };
        let reduced = tokio::task::spawn_blocking(work).await;
        match reduced.map_err(|error| Status::internal(error.to_string()))? {
            Ok(reduction) => Ok(messages::all_reduced(&reduction)),
            Err(ReduceError::Segment(error)) => Err(segments::unusable(error)),
            Err(ReduceError::Agent(error)) => {
                running.report_wrong_sum(&error).await;
                Err(agent_status(&error, running.away()))
            }
        }
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

/// Blocks until the result is in its place, if there is one.
fn reduce(
    running: &Running,
    segment: &Segment,
    place: Place,
    (name, weight): (String, u32),
    terms: Terms,
) -> Result<Reduction, ReduceError> {
    let data = segment.read(place)?;
    let reduction = running.reduce(AllReduce { name, data, weight }, terms)?;
    if let Outcome::Reduced(Reduced { sums, .. }) = &reduction.outcome {
        segment.write(place, sums)?;
    }
    Ok(reduction)
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

/// In the API's terms; `away` says how long the controller has been away, if it is.
pub(super) fn agent_status(error: &AgentError, away: Option<Duration>) -> Status {
    let message = error.to_string();
    match error {
        AgentError::Collective(_) => Status::failed_precondition(message),
        AgentError::Refused(_) => Status::invalid_argument(message),
        AgentError::Deadline { .. } => Status::deadline_exceeded(match away {
            Some(time) => format!("{message}; the controller has been away for {time:.1?}"),
            None => message,
        }),
        AgentError::Ended { .. } | AgentError::Regroup { .. } => Status::aborted(message),
        AgentError::OtherRole { .. }
        | AgentError::Change { .. }
        | AgentError::Config(_)
        | AgentError::Frame(_)
        | AgentError::System { .. }
        | AgentError::UdpPort { .. }
        | AgentError::Link(_) => Status::internal(message),
    }
}
