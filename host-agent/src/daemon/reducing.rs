//! A training process's use of a job's all-reduces.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{AllReduce, Reduced, StartError};

use super::account::Account;
use super::course::Part;
use super::member::Member;
use super::messages;
use super::running::Running;
use super::segment::{ElementType, Place, Segment};
use super::segments::{self, Segments};
use crate::error::AgentError;
use crate::worker::{Held, Outcome, Terms};

/// Bytes of the longest name of a tensor.
const MAX_TENSOR_NAME: usize = 1024;

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
        account: &Arc<Account>,
        segments: &Segments,
        request: v1::AllReduceRequest,
    ) -> Result<v1::AllReduceResponse, Status> {
        let running = self.member.running()?;
        let element_type = element_type(request.element_type)?;
        let (segment, place) =
            segments.place(request.segment, request.offset, element_type, request.count)?;
        check_name(&request.name)?;
        let milliseconds = Some(request.deadline_milliseconds).filter(|milliseconds| *milliseconds > 0);
        let deadline = milliseconds.map(Duration::from_millis);
        let terms = Terms { deadline, regroup: request.regroup_generation, ..Terms::default() };
        let part = match request.regroup_generation {
            0 => Part::OfStep { samples: request.weight, goes_on: request.step_goes_on },
            _ => Part::Other,
        };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let held = Held::new(account.take(place.memory_to_reduce())?);
        // The turn ends with the work, not with the caller's patience.
        let work = async move {
            let reduced =
                reduce(&running, segment, place, (request.name, request.weight), part, terms, held).await;
            drop(turn);
            match reduced {
                Ok(response) => Ok(response),
                Err(ReduceError::Segment(error)) => Err(segments::unusable(error)),
                Err(ReduceError::Agent(error)) => Err(agent_status(&error, running.away())),
            }
        };
        tokio::spawn(work).await.map_err(|error| Status::internal(error.to_string()))?
    }
}

/// The tensor's name is for errors, which have to fit into a message.
fn check_name(name: &str) -> Result<(), Status> {
    if name.len() > MAX_TENSOR_NAME {
        let problem = format!("a tensor's name of {} bytes: up to {MAX_TENSOR_NAME} are taken", name.len());
        return Err(Status::invalid_argument(problem));
    }
    Ok(())
}

/// Why an all-reduce has no result.
#[derive(Debug, thiserror::Error)]
enum ReduceError {
    #[error(transparent)]
    Segment(#[from] io::Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Returns once the result is in its place, if there is one.
async fn reduce(
    running: &Arc<Running>,
    segment: Arc<Segment>,
    place: Place,
    (name, weight): (String, u32),
    part: Part,
    terms: Terms,
    held: Held,
) -> Result<v1::AllReduceResponse, ReduceError> {
    let from = Arc::clone(&segment);
    let data = blocking(move || from.read(place)).await?;
    let operation = AllReduce { name, data, weight };
    let reduction = running.start_reduce(operation, part, terms, held).await?;
    let response = messages::all_reduced(&reduction);
    blocking(move || match &reduction.outcome {
        Outcome::Reduced(Reduced { sums, .. }) => segment.write(place, sums),
        _ => Ok(()),
    })
    .await?;
    Ok(response)
}

/// Large tensors take a while: not on the threads that all sessions share.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
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
        AgentError::Refused(StartError::NoMemory { .. }) => Status::resource_exhausted(message),
        AgentError::Refused(_) => Status::invalid_argument(message),
        AgentError::Deadline { .. } => Status::deadline_exceeded(match away {
            Some(time) => format!("{message}; the controller has been away for {time:.1?}"),
            None => message,
        }),
        AgentError::Ended { .. } | AgentError::Regroup { .. } | AgentError::Detached(_) => {
            Status::aborted(message)
        }
        AgentError::LineBroken => Status::cancelled(message),
        AgentError::Interrupted => Status::unavailable(message),
        AgentError::OtherRole { .. }
        | AgentError::Change { .. }
        | AgentError::Config(_)
        | AgentError::Frame(_)
        | AgentError::System { .. }
        | AgentError::UdpPort { .. }
        | AgentError::Link(_) => Status::internal(message),
    }
}
