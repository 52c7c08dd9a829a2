//! A training process's use of a job's all-reduces.

use std::sync::Arc;

use tokio::sync::Mutex as AsyncMutex;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{AllReduce, Reduced};

use super::member::{Member, Running};
use super::segment::{ElementType, Place, Segment};
use super::segments::{self, Segments};
use crate::error::AgentError;

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
            Err(ReduceError::Segment(error)) => Err(segments::unusable(error)),
            Err(ReduceError::Agent(error)) => {
                running.report_wrong_sum(&error).await;
                Err(agent_status(&error))
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
    v1::AllReduceResponse { runs: reduced.runs.iter().map(run).collect(), regroup: None }
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
