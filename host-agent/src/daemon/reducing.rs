//! The all-reduces that a training process runs in a job.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{AllReduce, ElementType, JointAllReduce, OwnedPart};
use tributary_wire::Rank;

use super::account::Account;
use super::collective::{broadcast, collective_of, step_part};
use super::gathering::{Root, Share};
use super::joint;
use super::member::Member;
use super::messages;
use super::results::{copy, no_result};
use super::segment::{ElementRange, Segment};
use super::segments::{self, Segments};
use super::striped;
use super::under_way::UnderWay;
use crate::worker::{Completion, ReduceRequest, StreamPosition};

/// The longest name of a tensor, in bytes.
const MAX_TENSOR_NAME: usize = 1024;
/// The answer to an all-reduce, when it has ended.
pub(super) type Answer = Pin<Box<dyn Future<Output = v1::AllReduceResponse> + Send>>;

/// One process's use of one job.
#[derive(Debug)]
pub(crate) struct Reducing {
    pub(crate) member: Arc<Member>,
    /// The number of the process among the host's processes in the job.
    pub(crate) process: u32,
    under_way: Arc<UnderWay>,
    /// The lock that a stream of requests holds while the agent reads it.
    turn: Arc<AsyncMutex<()>>,
}

impl Reducing {
    pub(crate) fn new(member: Arc<Member>, process: u32) -> Self {
        Self { member, process, under_way: Arc::default(), turn: Arc::default() }
    }

    /// Returns true if no all-reduce is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns true if this host has abandoned an all-reduce that other members may still finish.
    pub(crate) async fn has_given_up(&self) -> bool {
        // An agent that has ended no longer contributes to an all-reduce.
        self.member.situation().await.is_some_and(|situation| situation.has_given_up)
            || self.member.joint.as_ref().is_some_and(|joint| joint.has_given_up())
    }

    /// Returns the root of the broadcast, or the parts of the reduce-scatter, that a process requests.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the request is invalid, or if the job has no such rank.
    async fn collective(
        &self,
        request: &v1::AllReduceRequest,
        element_type: ElementType,
    ) -> Result<(Option<Root>, Vec<OwnedPart>), Status> {
        let v1::AllReduceRequest { broadcast_root: root, ref parts, .. } = *request;
        if root.is_none() && parts.is_empty() {
            return Ok((None, Vec::new()));
        }
        if root.is_some() && element_type != ElementType::I32 {
            let problem =
                format!("\"{}\": a broadcast sends words of the type i32, not {element_type}", request.name);
            return Err(Status::invalid_argument(problem));
        }
        let is_mixed = root.is_some() && (request.weight > 0 || !parts.is_empty());
        if is_mixed || request.regroup_generation > 0 {
            let problem = format!(
                "\"{}\": a broadcast has no weight and no parts, and neither it nor a reduce-scatter synchronises",
                request.name
            );
            return Err(Status::invalid_argument(problem));
        }
        let situation = self.member.situation().await;
        let situation = situation.ok_or_else(|| Status::aborted("the worker has ended"))?;
        let members = &situation.members;
        let worker_of = |rank: u32| {
            let worker = members.processes.worker_of(rank);
            let known = |(worker, _): &(Rank, u32)| {
                members.ranks.contains(worker) || members.lost.contains_key(worker)
            };
            worker.filter(known).ok_or_else(|| {
                Status::invalid_argument(format!("\"{}\": the job has no rank {rank}", request.name))
            })
        };
        let root = root.map(|rank| {
            let (worker, process) = worker_of(rank)?;
            Ok::<_, Status>(Root { rank, worker, process, is_here: worker == situation.rank })
        });
        let owned = parts.iter().map(|v1::OwnedPart { count, owner }| {
            let len = usize::try_from(*count).map_err(|error| Status::out_of_range(error.to_string()))?;
            let (owner, process) = worker_of(*owner)?;
            Ok(OwnedPart { len, owner, process })
        });
        Ok((root.transpose()?, owned.collect::<Result<_, Status>>()?))
    }

    /// Waits until all earlier streams of requests have ended.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Starts an all-reduce as soon as there is memory for it. When `start` returns, the position of the
    /// all-reduce in the order is fixed. The returned future yields the answer when the agent no longer needs the
    /// elements; the caller must drive it to its end. `segments` holds the process's elements, and `account` its
    /// memory.
    ///
    /// # Errors
    /// Returns an error if the all-reduce was not started.
    pub(super) async fn start(
        &self,
        (segments, account): (&Segments, &Arc<Account>),
        request: v1::AllReduceRequest,
        position: StreamPosition,
    ) -> Result<Answer, Status> {
        let agent = self.member.agent()?;
        let element_type = element_type(request.element_type)?;
        let (segment, place) =
            segments.place(request.segment, request.offset, element_type, request.count)?;
        check_name(&request.name)?;
        let (root, parts) = self.collective(&request, element_type).await?;
        let entry = self.under_way.enter(segment.stretch(place))?;
        let milliseconds = Some(request.deadline_milliseconds).filter(|milliseconds| *milliseconds > 0);
        let deadline = milliseconds.map(Duration::from_millis);
        if let Some(joint) = &self.member.joint {
            let share = Share {
                segment,
                place,
                name: request.name,
                weight: request.weight,
                root,
                parts,
                regroup: request.regroup_generation,
                step_goes_on: request.step_goes_on,
                deadline,
                position,
                under_way: Arc::clone(&self.under_way),
                account: Arc::clone(account),
                entry,
            };
            return Ok(Box::pin(joint::start(joint, &self.member, self.process, share).await?));
        }
        let (tensor, name, weight) = (request.name.clone(), request.name, request.weight);
        let width = agent.width;
        let stripes = striped::divide(&agent, place, &collective_of(parts));
        let (memory, counts) = (striped::memory_to_reduce(&stripes, width), striped::counts(&stripes));
        let (held, vectors) = self.under_way.room(|| account.take_with_vectors(memory, &counts)).await?;
        let operation = async |((place, collective), vector)| {
            let (name, from) = (name.clone(), Arc::clone(&segment));
            if let Some(root) = root {
                return broadcast(name, root, from, (place, vector)).await;
            }
            let read = move || from.read_measured(place, vector, width);
            let (data, bounds) = copy(place, read).await.map_err(segments::unusable)?;
            let operation: JointAllReduce = AllReduce { name, data, weight }.into();
            Ok(JointAllReduce { bounds: Some(bounds), collective, ..operation })
        };
        let operations = try_join_all(stripes.into_iter().zip(vectors).map(operation)).await?;
        let reduction = agent.start_reduce(ReduceRequest {
            part: step_part(root, weight, request.step_goes_on, request.regroup_generation),
            operations,
            deadline,
            regroup: request.regroup_generation,
            position,
            held: Box::new(held),
        });
        let (member, account) = (Arc::clone(&self.member), Arc::clone(account));
        Ok(Box::pin(async move {
            let answer = match reduction.await {
                Ok(completion) => put_back(completion, segment, place, &account).await,
                Err(error) => no_result(&member, error, tensor).await,
            };
            // The entry is released before the answer is sent, so that the client can reduce the same elements again.
            drop(entry);
            answer
        }))
    }
}

/// Writes the sums to their place in the segment, and keeps their vectors for later all-reduces.
async fn put_back(
    completion: Completion,
    segment: Arc<Segment>,
    place: ElementRange,
    account: &Account,
) -> v1::AllReduceResponse {
    let answer = messages::all_reduced(&completion);
    let Completion { reduced, held, .. } = completion;
    let sums = striped::sums_of(reduced);
    let written = striped::write(&segment, place, sums.clone()).await;
    // The vectors' memory must be released first, because they are kept in memory that is reserved but not in use.
    drop(held);
    match written {
        Ok(()) => {
            striped::keep_all(account, sums);
            answer
        }
        Err(error) => messages::failed(&segments::unusable(error), false, false),
    }
}

/// Checks the length of a tensor's name. The name appears in errors, which have to fit into a
/// message.
fn check_name(name: &str) -> Result<(), Status> {
    if name.len() > MAX_TENSOR_NAME {
        let problem = format!("a tensor's name of {} bytes: up to {MAX_TENSOR_NAME} are taken", name.len());
        return Err(Status::invalid_argument(problem));
    }
    Ok(())
}

fn element_type(number: i32) -> Result<ElementType, Status> {
    match v1::ElementType::try_from(number) {
        Ok(v1::ElementType::F32) => Ok(ElementType::F32),
        Ok(v1::ElementType::F16) => Ok(ElementType::F16Paired),
        Ok(v1::ElementType::Bf16) => Ok(ElementType::BF16Paired),
        Ok(v1::ElementType::F16Exact) => Ok(ElementType::F16),
        Ok(v1::ElementType::Bf16Exact) => Ok(ElementType::BF16),
        Ok(v1::ElementType::I32) => Ok(ElementType::I32),
        Ok(v1::ElementType::F32Exact) => Ok(ElementType::F32Exact),
        Ok(v1::ElementType::F64) => Ok(ElementType::F64),
        Ok(v1::ElementType::I64) => Ok(ElementType::I64),
        Ok(v1::ElementType::Unspecified) => Err(Status::invalid_argument("the element type is missing")),
        Err(_) => Err(Status::invalid_argument(format!("element type {number} is unknown to this agent"))),
    }
}
