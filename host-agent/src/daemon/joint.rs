//! The all-reduces of a host with several training processes. The agent contributes their sum.
//!
//! Every process starts the same all-reduces in the same order, so the agent matches them by number. When all processes
//! have started an all-reduce, it adds their elements, and starts one all-reduce in the network. Each process gets the
//! result in its own memory.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::mem;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::JointAllReduce;
use tributary_wire::SliceWidth;

use super::account::Account;
use super::member::{Member, Phase};
use super::messages;
use super::reducing::{agent_status, copy, keep, no_result};
use super::segment::{ElementRange, Segment, SegmentPart, SummedParts, can_sum, read_each, sum};
use super::segments;
use super::under_way::{Entry, UnderWay};
use crate::error::AgentError;
use crate::worker::{Completion, ReduceRequest, StepPart, StreamPosition};

/// One process's part in an all-reduce.
pub(super) struct Share {
    pub(super) segment: Arc<Segment>,
    pub(super) place: ElementRange,
    pub(super) name: String,
    pub(super) weight: u32,
    /// The generation for which the all-reduce synchronises; 0 if it does not synchronise.
    pub(super) regroup: u32,
    pub(super) step_goes_on: bool,
    pub(super) deadline: Option<Duration>,
    /// The place of the request in the process's stream.
    pub(super) position: StreamPosition,
    pub(super) under_way: Arc<UnderWay>,
    pub(super) account: Arc<Account>,
    /// The entry ends before the process gets its answer, so that it can reduce the same elements again.
    pub(super) entry: Entry,
}

impl Share {
    /// Returns the properties that must be equal in all processes, as text.
    fn kind(&self) -> String {
        let synchronises = if self.regroup > 0 { ", which synchronises" } else { "" };
        let (count, element_type) = (self.place.count(), self.place.element_type());
        format!("\"{}\" of {count} {element_type}{synchronises}", self.name)
    }
}

/// A share, and the sender of the answer to its process.
struct Pending {
    share: Share,
    reply: oneshot::Sender<v1::AllReduceResponse>,
}

impl Pending {
    fn answer(self, answer: v1::AllReduceResponse) {
        let Self { share: Share { entry, .. }, reply } = self;
        drop(entry);
        // The answer is dropped if the process no longer waits for it.
        let _ = reply.send(answer);
    }
}

/// An all-reduce that some processes have not started yet.
#[derive(Default)]
struct Gathering {
    pending: BTreeMap<u32, Pending>,
    /// Processes whose deadline has passed. They contribute nothing.
    given_up: BTreeSet<u32>,
}

impl Gathering {
    fn has(&self, process: u32) -> bool {
        self.pending.contains_key(&process) || self.given_up.contains(&process)
    }
}

/// An all-reduce that all processes have started.
pub(super) struct Ready {
    pending: Vec<Pending>,
    /// The place among the all-reduces of the host.
    position: StreamPosition,
    epoch: u64,
}

/// The answer to all-reduces that processes start before they have received the same answer to an
/// earlier one.
struct Interruption {
    answer: v1::AllReduceResponse,
    /// The generation for which the processes must synchronise; `None` if the worker is detached.
    generation: Option<u32>,
    /// The processes that have not yet started the synchronising all-reduce.
    behind: BTreeSet<u32>,
}

struct State {
    open: VecDeque<Gathering>,
    /// The number of all-reduces that all processes have started.
    begun: u64,
    /// The number of the next all-reduce of each process.
    next: Vec<u64>,
    /// The stream of the host's all-reduces since the last one that was refused, and their number.
    stream: (StreamPosition, u64),
    /// Counts refusals and interruptions. An answer to an all-reduce of an earlier epoch changes nothing.
    epoch: u64,
    interruption: Option<Interruption>,
    closed: bool,
}

impl State {
    /// Removes the all-reduces that are not complete. Each process continues with the same number.
    fn start_over(&mut self) -> Vec<Pending> {
        self.epoch += 1;
        self.next.fill(self.begun);
        self.stream = (StreamPosition::default(), 0);
        let open = mem::take(&mut self.open).into_iter();
        open.flat_map(|gathering| gathering.pending.into_values()).collect()
    }
}

/// The all-reduces of a host with several training processes in one job.
pub(super) struct JointReduces {
    state: Mutex<State>,
    ready: mpsc::UnboundedSender<Ready>,
    /// The number of all-reduces that have ended.
    ended: watch::Sender<u64>,
}

impl fmt::Debug for JointReduces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (open, begun) = (state.open.len(), state.begun);
        f.debug_struct("JointReduces").field("open", &open).field("begun", &begun).finish_non_exhaustive()
    }
}

/// The outcome of adding a share.
enum Added {
    /// The number of the share's all-reduce, and the receiver of its answer.
    Awaited(u64, oneshot::Receiver<v1::AllReduceResponse>),
    Answered(Box<v1::AllReduceResponse>),
}

impl JointReduces {
    /// Returns the all-reduces of a host with this number of processes, and the receiver for
    /// [`run`](Self::run).
    pub(super) fn new(processes: u32) -> (Arc<Self>, mpsc::UnboundedReceiver<Ready>) {
        let (ready, receiver) = mpsc::unbounded_channel();
        let state = Mutex::new(State {
            open: VecDeque::new(),
            begun: 0,
            next: vec![0; processes as usize],
            stream: (StreamPosition::default(), 0),
            epoch: 0,
            interruption: None,
            closed: false,
        });
        (Arc::new(Self { state, ready, ended: watch::Sender::new(0) }), receiver)
    }

    /// Begins the all-reduces of the member until its job is over. Then it answers all that remain.
    pub(super) async fn run(self: Arc<Self>, member: Arc<Member>, mut ready: mpsc::UnboundedReceiver<Ready>) {
        let mut phase = member.phase();
        // An error means that the membership has ended.
        let over = async { drop(phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await) };
        let mut over = pin!(over);
        loop {
            tokio::select! {
                next = ready.recv() => match next {
                    Some(next) => self.begin(&member, next).await,
                    None => return,
                },
                () = &mut over => break,
            }
        }
        let mut left = {
            let mut state = self.state.lock();
            state.closed = true;
            state.start_over()
        };
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
        self: &Arc<Self>,
        member: &Arc<Member>,
        process: u32,
        share: Share,
    ) -> Result<impl Future<Output = v1::AllReduceResponse> + Send + 'static + use<>, Status> {
        self.look_for_return(member).await;
        let (name, deadline) = (share.name.clone(), share.deadline);
        let added = self.add(member, process, share)?;
        let (own, member) = (Arc::clone(self), Arc::clone(member));
        Ok(async move {
            let (number, mut answer) = match added {
                Added::Answered(answer) => return *answer,
                Added::Awaited(number, answer) => (number, answer),
            };
            let is_over = || failed(&member, &AgentError::StreamBroken);
            let Some(limit) = deadline else { return answer.await.unwrap_or_else(|_| is_over()) };
            tokio::select! {
                answer = &mut answer => return answer.unwrap_or_else(|_| is_over()),
                () = own.overdue(number, limit) => {}
            }
            match own.give_up(number, process) {
                // All processes have started it, so its deadline in the network counts.
                None => answer.await.unwrap_or_else(|_| is_over()),
                Some(missing) => {
                    let problem = format!(
                        "all-reduce of \"{name}\": {} of this host {} not started it within {limit:?}: check what {} \
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

    /// Ends the interruption of a detached worker if the worker is a member again.
    async fn look_for_return(&self, member: &Member) {
        let is_detached = |state: &State| {
            state.interruption.as_ref().is_some_and(|interruption| interruption.generation.is_none())
        };
        if !is_detached(&self.state.lock()) {
            return;
        }
        let Some(situation) = member.situation().await.filter(|situation| situation.detached.is_none())
        else {
            return;
        };
        let mut state = self.state.lock();
        if is_detached(&state) {
            // The worker now answers all-reduces again, and orders its processes to synchronise.
            state.interruption = None;
            drop(situation);
        }
    }

    fn add(&self, member: &Arc<Member>, process: u32, share: Share) -> Result<Added, Status> {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return Err(member.agent().err().unwrap_or_else(|| Status::aborted("the job is over")));
        }
        if share.position.is_broken() {
            return Err(agent_status(&AgentError::StreamBroken, None));
        }
        if let Some(interruption) = &mut state.interruption {
            if interruption.generation.is_some_and(|generation| generation == share.regroup) {
                interruption.behind.remove(&process);
            } else if interruption.behind.contains(&process) {
                return Ok(Added::Answered(Box::new(interruption.answer.clone())));
            }
        }
        let State { open, begun, next, .. } = &mut *state;
        let Some(next) = next.get_mut(process as usize) else {
            return Err(Status::internal(format!("process {process} is not one of the job's")));
        };
        let number = *next;
        let at = usize::try_from(number - *begun).map_err(|error| Status::internal(error.to_string()))?;
        if at >= open.len() {
            open.push_back(Gathering::default());
        }
        let Some(gathering) = open.get_mut(at) else {
            return Err(Status::internal("an all-reduce of this host was left out"));
        };
        if let Some((other, first)) = gathering.pending.first_key_value()
            && first.share.kind() != share.kind()
        {
            let problem = format!(
                "the processes of this host reduce different tensors: {} {}, and {} {}; all ranks must start the same \
                 all-reduces in the same order",
                member.names_of(&[*other]),
                first.share.kind(),
                member.names_of(&[process]),
                share.kind(),
            );
            member.report_fault(problem.clone());
            return Err(Status::failed_precondition(problem));
        }
        *next += 1;
        let (reply, answer) = oneshot::channel();
        gathering.pending.insert(process, Pending { share, reply });
        if gathering.pending.len() + gathering.given_up.len() == state.next.len()
            && let Some(gathering) = state.open.pop_front()
        {
            state.begun += 1;
            let (stream, count) = &mut state.stream;
            let position = stream.at(*count);
            *count += 1;
            let pending = gathering.pending.into_values().collect();
            // If the receiver is gone, the job is over, and the processes get an error.
            let _ = self.ready.send(Ready { pending, position, epoch: state.epoch });
        }
        Ok(Added::Awaited(number, answer))
    }

    /// Waits until `limit` has passed since all all-reduces before number `number` have ended.
    async fn overdue(&self, number: u64, limit: Duration) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= number).await;
        sleep(limit).await;
    }

    /// Takes back a process's part in an all-reduce that is not complete. Returns the processes that have
    /// not started it; `None` if it is complete.
    fn give_up(&self, number: u64, process: u32) -> Option<Vec<u32>> {
        let mut state = self.state.lock();
        let at = usize::try_from(number.checked_sub(state.begun)?).ok()?;
        let processes = state.next.len() as u32;
        let gathering = state.open.get_mut(at)?;
        let missing = (0..processes).filter(|one| !gathering.has(*one)).collect();
        gathering.pending.remove(&process)?;
        gathering.given_up.insert(process);
        Some(missing)
    }

    /// Returns true if a process has given up an all-reduce that the other processes may still start.
    pub(super) fn has_given_up(&self) -> bool {
        self.state.lock().open.iter().any(|gathering| !gathering.given_up.is_empty())
    }

    /// Returns the processes for which the oldest all-reduce waits, and its name; `None` if it waits for
    /// none.
    pub(super) fn wait(&self) -> Option<(Vec<u32>, String)> {
        let state = self.state.lock();
        let oldest = state.open.front()?;
        let name = oldest.pending.first_key_value()?.1.share.name.clone();
        Some(((0..state.next.len() as u32).filter(|one| !oldest.has(*one)).collect(), name))
    }

    /// Notes that another process takes the place of this one. It begins with the oldest all-reduce that
    /// is not complete.
    pub(super) fn replace(&self, process: u32) {
        let mut state = self.state.lock();
        let begun = state.begun;
        let is_in_none = !state.open.iter().any(|gathering| gathering.has(process));
        if let Some(next) = state.next.get_mut(process as usize).filter(|_| is_in_none) {
            *next = begun;
        }
    }

    async fn begin(self: &Arc<Self>, member: &Arc<Member>, ready: Ready) {
        let Ready { pending, position, epoch } = ready;
        let agent = match member.agent() {
            Ok(agent) => agent,
            Err(status) => return self.refuse((pending, epoch), &position, &status, member),
        };
        if pending.iter().any(|pending| pending.share.position.is_broken()) {
            let status = agent_status(&AgentError::StreamBroken, None);
            return self.refuse((pending, epoch), &position, &status, member);
        }
        let (operation, held) = match contribution(&pending, agent.width).await {
            Ok(contribution) => contribution,
            Err(status) => return self.refuse((pending, epoch), &position, &status, member),
        };
        let Some(Share { step_goes_on, regroup, deadline, .. }) = pending.first().map(|first| &first.share)
        else {
            return;
        };
        let reduction = agent.start_reduce(ReduceRequest {
            part: match regroup {
                0 => StepPart::OfStep { samples: operation.weight, goes_on: *step_goes_on },
                _ => StepPart::Other,
            },
            operation,
            deadline: *deadline,
            regroup: *regroup,
            position: position.clone(),
            held,
        });
        let (own, member) = (Arc::clone(self), Arc::clone(member));
        tokio::spawn(async move {
            match reduction.await {
                Ok(completion) => own.finish(pending, completion).await,
                Err(error) => own.fail((pending, epoch), &position, error, &member).await,
            }
        });
    }

    /// Writes the sums to the memory of each process, and answers it.
    async fn finish(&self, pending: Vec<Pending>, completion: Completion) {
        let answer = messages::all_reduced(&completion);
        let Completion { reduced, held, .. } = completion;
        let sums = Arc::new(reduced.sums);
        let account = pending.first().map(|lead| Arc::clone(&lead.share.account));
        let write = |pending: &Pending| {
            let (sums, segment, place) =
                (Arc::clone(&sums), Arc::clone(&pending.share.segment), pending.share.place);
            tokio::spawn(copy(place, move || segment.write(place, &sums)))
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
        if let (Some(account), Some(sums)) = (account, Arc::into_inner(sums)) {
            keep(&account, sums);
        }
        self.note_end();
        pending.into_iter().zip(answers).for_each(|(pending, answer)| pending.answer(answer));
    }

    /// Answers all processes with the reason why an all-reduce has no result.
    async fn fail(
        &self,
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
                return self.refuse((pending, epoch), position, &status, member);
            }
            _ => None,
        };
        let name = pending.first().map(|lead| lead.share.name.clone()).unwrap_or_default();
        let answer = no_result(member, error, name).await;
        let mut all = pending;
        if let Some(generation) = generation {
            let mut state = self.state.lock();
            if state.epoch == epoch {
                all.extend(state.start_over());
                let behind = (0..state.next.len() as u32).collect();
                state.interruption = Some(Interruption { answer: answer.clone(), generation, behind });
            }
        }
        self.note_end();
        all.into_iter().for_each(|pending| pending.answer(answer.clone()));
    }

    /// Answers all processes that an all-reduce was not started. All later all-reduces of their streams
    /// are not started either.
    fn refuse(
        &self,
        (pending, epoch): (Vec<Pending>, u64),
        position: &StreamPosition,
        status: &Status,
        member: &Member,
    ) {
        position.break_off();
        let later = {
            let mut state = self.state.lock();
            pending.iter().for_each(|pending| pending.share.position.break_off());
            if state.epoch == epoch { state.start_over() } else { Vec::new() }
        };
        self.note_end();
        let answer = messages::failed(status, true, member.has_ended());
        pending.into_iter().for_each(|pending| pending.answer(answer.clone()));
        let broken = failed(member, &AgentError::StreamBroken);
        later.into_iter().for_each(|pending| pending.answer(broken.clone()));
    }

    fn note_end(&self) {
        self.ended.send_modify(|ended| *ended += 1);
    }
}

/// Returns the answer for an all-reduce that was not started because of this error.
fn failed(member: &Member, error: &AgentError) -> v1::AllReduceResponse {
    messages::failed(&agent_status(error, None), true, member.has_ended())
}

/// Adds the elements of all processes. Returns the host's contribution, and the value that keeps its
/// memory.
async fn contribution(
    pending: &[Pending],
    width: SliceWidth,
) -> Result<(JointAllReduce, Box<dyn Any + Send>), Status> {
    let no_process = || Status::internal("an all-reduce of no process");
    let Share { account, under_way, place, name, .. } = &pending.first().ok_or_else(no_process)?.share;
    let weight = pending.iter().map(|pending| pending.share.weight).fold(0, u32::saturating_add);
    let part = |Pending { share, .. }: &Pending| SegmentPart {
        segment: Arc::clone(&share.segment),
        place: share.place,
        factor: share.weight,
    };
    // A process without weight contributes nothing. If none has any, one must give the elements' number and type.
    let with_weight = pending.iter().filter(|pending| pending.share.weight > 0);
    let mut parts: Vec<SegmentPart> = with_weight.map(part).collect();
    if parts.is_empty() {
        parts.extend(pending.first().map(part));
    }
    let parts = Arc::new(parts);
    let (needed, of_part) = (place.memory_to_reduce(width), place.memory_of_part());
    let further = parts.len() as u64 - 1;
    let sums = further > 1 && can_sum(place.element_type());
    let bytes = needed + of_part.saturating_mul(if sums { 1 } else { further });
    let (held, vector) = under_way.room(|| account.take_with_vector(bytes, place.count())).await?;
    let mut held: Vec<Box<dyn Any + Send>> = vec![Box::new(held)];
    let mut vector = vector;
    let mut summed = None;
    if sums {
        let (parts, vector) = (Arc::clone(&parts), mem::take(&mut vector));
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(parts.len());
        let work = move || sum(&parts, weight, vector, (width, threads));
        summed = copy(*place, work).await.map_err(segments::unusable)?;
        if summed.is_none() {
            // Each part needs its own vector.
            let bytes = of_part.saturating_mul(further - 1);
            held.push(Box::new(under_way.room(|| account.take(bytes)).await?));
        }
    }
    if summed.is_none() {
        let work = move || read_each(&parts, weight, vector, width);
        summed = copy(*place, work).await.map_err(segments::unusable)?;
    }
    let SummedParts { first, further, bounds } = summed.ok_or_else(no_process)?;
    Ok((JointAllReduce { name: name.clone(), first, further, weight, bounds }, Box::new(held)))
}
