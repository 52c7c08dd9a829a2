//! The all-reduces of a host with several training processes. The agent contributes their sum.
//!
//! When all processes have started an all-reduce, the agent adds their elements, and starts one all-reduce in the
//! network. Each process gets the result in its own memory.

use std::any::Any;
use std::mem;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::JointAllReduce;
use tributary_wire::SliceWidth;

use super::account::InUse;
use super::collective::{broadcast, collective_of, step_part};
use super::gathering::{AddError, Added, Gatherings, Pending, Ready, Share};
use super::member::{Member, Phase};
use super::messages;
use super::results::{agent_status, copy, no_result};
use super::segment::{ElementRange, SegmentPart, SummedParts, can_sum, read_each, sum};
use super::segments;
use super::striped;
use crate::error::AgentError;
use crate::worker::{Completion, ReduceRequest, StreamPosition, WorkerAgent};

/// Begins the all-reduces of the member until its job is over. Then it answers all that remain.
pub(super) async fn run(
    own: Arc<Gatherings>,
    member: Arc<Member>,
    mut ready: mpsc::UnboundedReceiver<Ready>,
) {
    let mut phase = member.phase();
    // An error means that the membership has ended.
    let over = async { drop(phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await) };
    let mut over = pin!(over);
    loop {
        tokio::select! {
            next = ready.recv() => match next {
                Some(next) => begin(&own, &member, next).await,
                None => return,
            },
            () = &mut over => break,
        }
    }
    let mut left = own.close();
    while let Ok(Ready { pending, .. }) = ready.try_recv() {
        left.extend(pending);
    }
    let reason = member.agent().err().map(|status| status.message().to_owned()).unwrap_or_default();
    for pending in left {
        let agent = format!("the worker of job \"{}\"", member.job);
        let error = AgentError::Ended { agent, reason: reason.clone() };
        let answer = no_result(&member, error, pending.share.name.clone()).await;
        pending.answer(answer);
    }
}

/// Starts the all-reduce of a process. When `start` returns, its position in the order is fixed.
///
/// # Errors
/// Returns an error if the all-reduce was not started.
pub(super) async fn start(
    own: &Arc<Gatherings>,
    member: &Arc<Member>,
    process: u32,
    share: Share,
) -> Result<impl Future<Output = v1::AllReduceResponse> + Send + 'static + use<>, Status> {
    if own.is_detached() && member.situation().await.is_some_and(|situation| situation.detached.is_none()) {
        own.end_detachment();
    }
    let (name, deadline) = (share.name.clone(), share.deadline);
    let added = own.add(process, share).map_err(|error| add_status(error, member, process))?;
    let (own, member) = (Arc::clone(own), Arc::clone(member));
    Ok(async move {
        let (number, mut answer) = match added {
            Added::Answered(answer) => return *answer,
            Added::Awaited(number, answer) => (number, answer),
        };
        let is_over = || failed(&member, &AgentError::StreamBroken);
        let Some(limit) = deadline else { return answer.await.unwrap_or_else(|_| is_over()) };
        let since = tokio::select! {
            answer = &mut answer => return answer.unwrap_or_else(|_| is_over()),
            since = own.overdue(process, number, limit) => since,
        };
        match own.give_up(process, number, since) {
            // All processes have started it, so its deadline in the network counts.
            None => answer.await.unwrap_or_else(|_| is_over()),
            Some(missing) => {
                let problem = format!(
                    "collective \"{name}\": {} of this host {} not started it within {limit:?}: check what {} \
                     instead",
                    member.names_of(&missing),
                    if missing.len() == 1 { "has" } else { "have" },
                    if missing.len() == 1 { "its process does" } else { "their processes do" },
                );
                messages::failed(&Status::deadline_exceeded(problem), false, false)
            }
        }
    })
}

/// Adds the elements of an all-reduce, and starts it in the network.
async fn begin(own: &Arc<Gatherings>, member: &Arc<Member>, ready: Ready) {
    let Ready { pending, position, epoch, given_up } = ready;
    let (agent, request) = match prepare(member, &pending, &position, !given_up.is_empty()).await {
        Ok(prepared) => prepared,
        Err(status) => return refuse(own, (pending, epoch), &position, &status, member),
    };
    let reduction = agent.start_reduce(request);
    let (own, member) = (Arc::clone(own), Arc::clone(member));
    tokio::spawn(async move {
        match reduction.await {
            Ok(completion) => finish(&own, pending, completion).await,
            Err(AgentError::Withheld { .. }) if !given_up.is_empty() => {
                leave_out(&own, pending, &member.names_of(&given_up));
            }
            Err(error) => fail(&own, (pending, epoch), &position, error, &member).await,
        }
    });
}

/// Returns the agent that runs an all-reduce of the host, and the request for it.
async fn prepare(
    member: &Member,
    pending: &[Pending],
    position: &StreamPosition,
    is_withheld: bool,
) -> Result<(Arc<WorkerAgent>, ReduceRequest), Status> {
    let agent = member.agent()?;
    if pending.iter().any(|pending| pending.share.position.is_broken()) {
        return Err(agent_status(&AgentError::StreamBroken, None));
    }
    let (operations, held) = contribution(pending, &agent).await?;
    let weight = operations.first().map_or(0, |operation| operation.weight);
    let withheld = |operation| JointAllReduce { is_withheld, ..operation };
    let Share { root, step_goes_on, regroup, deadline, .. } = &lead(pending)?.share;
    let request = ReduceRequest {
        part: step_part(*root, weight, *step_goes_on, *regroup),
        operations: operations.into_iter().map(withheld).collect(),
        deadline: *deadline,
        regroup: *regroup,
        position: position.clone(),
        held,
    };
    Ok((agent, request))
}

/// Returns the part of the process whose account has the memory of an all-reduce.
fn lead(pending: &[Pending]) -> Result<&Pending, Status> {
    pending.first().ok_or_else(|| Status::internal("an all-reduce of no process"))
}

/// Writes the sums to the memory of each process, and answers it.
async fn finish(own: &Gatherings, pending: Vec<Pending>, completion: Completion) {
    let answer = messages::all_reduced(&completion);
    let Completion { reduced, held, .. } = completion;
    let sums = striped::sums_of(reduced);
    let account = pending.first().map(|lead| Arc::clone(&lead.share.account));
    let write = |pending: &Pending| {
        let (sums, segment, place) = (sums.clone(), Arc::clone(&pending.share.segment), pending.share.place);
        tokio::spawn(async move { striped::write(&segment, place, sums).await })
    };
    let writes: Vec<_> = pending.iter().map(write).collect();
    let mut answers = Vec::new();
    for write in writes {
        let written = write.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        answers.push(match written {
            Ok(()) => answer.clone(),
            Err(error) => messages::failed(&segments::unusable(error), false, false),
        });
    }
    drop(held);
    if let Some(account) = account {
        striped::keep_all(&account, sums);
    }
    own.note_end();
    pending.into_iter().zip(answers).for_each(|(pending, answer)| pending.answer(answer));
}

/// Answers the processes that have started an all-reduce after others of the host had given it up.
fn leave_out(own: &Gatherings, pending: Vec<Pending>, given_up: &str) {
    own.note_end();
    for pending in pending {
        let problem = format!(
            "collective \"{}\": {given_up} of this host had given it up after the deadline, so the host has \
             contributed nothing: start all-reduces at the same time on all ranks, or give them a longer deadline",
            pending.share.name
        );
        pending.answer(messages::failed(&Status::deadline_exceeded(problem), false, false));
    }
}

/// Answers all processes with the reason why an all-reduce has no result.
async fn fail(
    own: &Gatherings,
    (pending, epoch): (Vec<Pending>, u64),
    position: &StreamPosition,
    error: AgentError,
    member: &Member,
) {
    let generation = match &error {
        AgentError::Regroup { regroup, .. } => Some(Some(regroup.generation)),
        AgentError::Detached(_) => Some(None),
        AgentError::Refused(_) | AgentError::StreamBroken => {
            let status = agent_status(&error, None);
            return refuse(own, (pending, epoch), position, &status, member);
        }
        _ => None,
    };
    let name = pending.first().map(|lead| lead.share.name.clone()).unwrap_or_default();
    let answer = no_result(member, error, name).await;
    let mut all = pending;
    if let Some(generation) = generation {
        all.extend(own.interrupt(epoch, &answer, generation));
    }
    own.note_end();
    all.into_iter().for_each(|pending| pending.answer(answer.clone()));
}

/// Answers all processes that an all-reduce was not started. All later all-reduces of their streams
/// are not started either.
fn refuse(
    own: &Gatherings,
    (pending, epoch): (Vec<Pending>, u64),
    position: &StreamPosition,
    status: &Status,
    member: &Member,
) {
    position.break_off();
    let later = own.break_off(epoch, &pending);
    own.note_end();
    let answer = messages::failed(status, true, member.has_ended());
    pending.into_iter().for_each(|pending| pending.answer(answer.clone()));
    let broken = failed(member, &AgentError::StreamBroken);
    later.into_iter().for_each(|pending| pending.answer(broken.clone()));
}

/// Returns the status for a share that was not added. Fails the job if the processes do not match.
fn add_status(error: AddError, member: &Arc<Member>, process: u32) -> Status {
    match error {
        AddError::Closed => member.agent().err().unwrap_or_else(|| Status::aborted("the job is over")),
        AddError::StreamBroken => agent_status(&AgentError::StreamBroken, None),
        AddError::Different { other, kinds: [others, own] } => {
            let problem = format!(
                "reduce different tensors: {} {others}, and {} {own}; all ranks must start the same all-reduces in the \
                 same order: correct that in the program, and start all ranks again",
                member.names_of(&[other]),
                member.names_of(&[process]),
            );
            member.report_fault(format!("its processes {problem}"));
            Status::failed_precondition(format!("the processes of this host {problem}"))
        }
        AddError::Inconsistent(problem) => Status::internal(problem),
    }
}

/// Returns the answer for an all-reduce that was not started because of this error.
fn failed(member: &Member, error: &AgentError) -> v1::AllReduceResponse {
    messages::failed(&agent_status(error, None), true, member.has_ended())
}

/// Adds the elements of all processes.
/// Returns the host's contribution in each stripe, and the value that keeps its memory.
async fn contribution(
    pending: &[Pending],
    agent: &WorkerAgent,
) -> Result<(Vec<JointAllReduce>, Box<dyn Any + Send>), Status> {
    let first = lead(pending)?;
    let Share { account, under_way, place, name, root, parts: owned, .. } = &first.share;
    let weight = pending.iter().map(|pending| pending.share.weight).fold(0, u32::saturating_add);
    let stripes = striped::divide(agent, *place, &collective_of(owned.clone()));
    let needed = striped::memory_to_reduce(&stripes, agent.width);
    // A process without weight contributes nothing. If none has any, one must give the elements' number and type.
    let with_weight = pending.iter().filter(|pending| pending.share.weight > 0);
    let mut sources: Vec<&Pending> = if root.is_some() { Vec::new() } else { with_weight.collect() };
    if sources.is_empty() {
        sources.push(first);
    }
    let (of_part, further) = (place.memory_of_part(), sources.len() as u64 - 1);
    let is_summed = further > 1 && can_sum(place.element_type());
    let bytes = needed + of_part.saturating_mul(if is_summed { 1 } else { further });
    let counts = striped::counts(&stripes);
    let (held, vectors) = under_way.room(|| account.take_with_vectors(bytes, &counts)).await?;
    let (mut held, mut operations) = (vec![held], Vec::new());
    let mut begin = 0;
    for ((stripe, collective), vector) in stripes.into_iter().zip(vectors) {
        let range = begin..begin + stripe.count();
        begin = range.end;
        if let Some(root) = root {
            // The root is among the processes unless one of them has given the broadcast up, which then fails.
            let source = pending.get(root.process as usize).filter(|_| root.is_here).unwrap_or(first);
            let (segment, place) = (Arc::clone(&source.share.segment), source.share.place.within(&range));
            operations.push(broadcast(name.clone(), *root, segment, (place, vector)).await?);
            continue;
        }
        let part = |Pending { share, .. }: &&Pending| SegmentPart {
            segment: Arc::clone(&share.segment),
            place: share.place.within(&range),
            factor: share.weight,
        };
        let parts = Arc::new(sources.iter().map(part).collect::<Vec<_>>());
        let (summed, further_memory) =
            add(parts, weight, vector, (stripe, agent.width, is_summed), first).await?;
        held.extend(further_memory);
        let SummedParts { first, further, bounds } = summed;
        operations.push(JointAllReduce {
            name: name.clone(),
            first,
            further,
            weight,
            bounds,
            is_withheld: false,
            collective,
        });
    }
    Ok((operations, Box::new(held)))
}

/// Adds the parts of one stripe, or reads each to a vector of its own if two vectors cannot hold their
/// sums. Returns the memory that the further vectors take.
async fn add(
    parts: Arc<Vec<SegmentPart>>,
    weight: u32,
    mut vector: Vec<u32>,
    (place, width, is_summed): (ElementRange, SliceWidth, bool),
    lead: &Pending,
) -> Result<(SummedParts, Option<InUse>), Status> {
    let Share { account, under_way, .. } = &lead.share;
    let mut memory = None;
    if is_summed {
        let (parts, vector) = (Arc::clone(&parts), mem::take(&mut vector));
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(parts.len());
        let further = parts.len() as u64 - 1;
        let work = move || sum(&parts, weight, vector, (width, threads));
        if let Some(summed) = copy(place, work).await.map_err(segments::unusable)? {
            return Ok((summed, None));
        }
        // Each part needs its own vector.
        let bytes = place.memory_of_part().saturating_mul(further - 1);
        memory = Some(under_way.room(|| account.take(bytes)).await?);
    }
    let work = move || read_each(&parts, weight, vector, width);
    Ok((copy(place, work).await.map_err(segments::unusable)?, memory))
}
