//! The match of the all-reduces of a host's training processes.
//!
//! Every process starts the same all-reduces in the same order, so the agent matches them by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tributary_api::agent::v1;
use tributary_protocol::OwnedPart;
use tributary_wire::Rank;

use super::account::Account;
use super::segment::{ElementRange, Segment};
use super::under_way::{Entry, UnderWay};
use crate::worker::StreamPosition;

/// The process that sends the elements of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    /// Its rank among the processes of the job.
    pub(super) rank: u32,
    /// The worker that contributes for it.
    pub(super) worker: Rank,
    /// Its number among the processes of its host.
    pub(super) process: u32,
    /// True if it runs on this host.
    pub(super) is_here: bool,
}

/// One process's part in an all-reduce.
pub(super) struct Share {
    pub(super) segment: Arc<Segment>,
    pub(super) place: ElementRange,
    pub(super) name: String,
    pub(super) weight: u32,
    /// The process that sends the elements of a broadcast; `None` in an all-reduce.
    pub(super) root: Option<Root>,
    /// The parts of a reduce-scatter; empty in other collectives.
    pub(super) parts: Vec<OwnedPart>,
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
    /// Returns true if the two can be parts of one all-reduce.
    fn matches(&self, other: &Self) -> bool {
        let kind =
            |share: &Self| (share.place.count(), share.place.element_type(), share.regroup > 0, share.root);
        self.name == other.name && kind(self) == kind(other) && self.parts == other.parts
    }

    /// Describes the properties that must be equal in all processes.
    fn kind(&self) -> String {
        let synchronises = if self.regroup > 0 { ", which synchronises" } else { "" };
        let (count, element_type) = (self.place.count(), self.place.element_type());
        let root = self.root.map(|root| format!(", a broadcast from rank {}", root.rank)).unwrap_or_default();
        let parts = if self.parts.is_empty() {
            String::new()
        } else {
            let lengths: Vec<_> = self.parts.iter().map(|part| part.len.to_string()).collect();
            format!(", a reduce-scatter in parts of {}", lengths.join(", "))
        };
        format!("\"{}\" of {count} {element_type}{root}{parts}{synchronises}", self.name)
    }
}

/// A share, and the sender of the answer to its process.
pub(super) struct Pending {
    pub(super) share: Share,
    reply: oneshot::Sender<v1::AllReduceResponse>,
}

impl Pending {
    pub(super) fn answer(self, answer: v1::AllReduceResponse) {
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

    /// Returns those of the host's processes that have not started it.
    fn missing(&self, processes: usize) -> Vec<u32> {
        (0..processes as u32).filter(|process| !self.has(*process)).collect()
    }
}

/// An all-reduce that all processes have started.
pub(super) struct Ready {
    pub(super) pending: Vec<Pending>,
    /// The place among the all-reduces of the host.
    pub(super) position: StreamPosition,
    /// The number of refusals and interruptions before it.
    pub(super) epoch: u64,
    /// The processes whose deadline had passed before all had started it. The host then withholds its
    /// contribution, so that no process of the job gets a sum that lacks a part of the host.
    pub(super) given_up: Vec<u32>,
}

/// The answer to all-reduces that processes start before they have received this answer.
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
    /// The number of all-reduces that have ended after all processes had started them.
    ended: u64,
    /// For each process, the last all-reduce that it has given up, and the beginning of its deadline.
    given_up: Vec<Option<(u64, Instant)>>,
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

/// The all-reduces of a host's processes in one job that are not complete, and the order of all.
pub(super) struct Gatherings {
    state: Mutex<State>,
    ready: mpsc::UnboundedSender<Ready>,
    /// Notified when an all-reduce has ended, or when a process gives one up.
    progress: watch::Sender<()>,
}

/// The outcome of adding a share.
pub(super) enum Added {
    /// The number of the share's all-reduce, and the receiver of its answer.
    Awaited(u64, oneshot::Receiver<v1::AllReduceResponse>),
    Answered(Box<v1::AllReduceResponse>),
}

/// The reason why a share was not added.
pub(super) enum AddError {
    /// The job is over.
    Closed,
    /// An earlier all-reduce of the process's stream was not started.
    StreamBroken,
    /// Another process reduces something else.
    Different {
        other: u32,
        /// Descriptions of the other process's tensor and of this process's tensor.
        kinds: [String; 2],
    },
    /// The agent has a bug.
    Inconsistent(&'static str),
}

impl fmt::Debug for Gatherings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let (open, begun) = (state.open.len(), state.begun);
        f.debug_struct("Gatherings").field("open", &open).field("begun", &begun).finish_non_exhaustive()
    }
}

impl Gatherings {
    /// Returns the all-reduces of a host with this number of processes, and the receiver of the all-reduces
    /// that all of them have started.
    pub(super) fn new(processes: u32) -> (Arc<Self>, mpsc::UnboundedReceiver<Ready>) {
        let (ready, receiver) = mpsc::unbounded_channel();
        let state = Mutex::new(State {
            open: VecDeque::new(),
            begun: 0,
            next: vec![0; processes as usize],
            stream: (StreamPosition::default(), 0),
            epoch: 0,
            interruption: None,
            ended: 0,
            given_up: vec![None; processes as usize],
            closed: false,
        });
        (Arc::new(Self { state, ready, progress: watch::Sender::new(()) }), receiver)
    }

    /// Adds a process's part to its next all-reduce.
    ///
    /// # Errors
    /// Returns an error if the all-reduce was not started.
    pub(super) fn add(&self, process: u32, share: Share) -> Result<Added, AddError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(AddError::Closed);
        }
        if share.position.is_broken() {
            return Err(AddError::StreamBroken);
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
            return Err(AddError::Inconsistent("the process is not one of the job's"));
        };
        let number = *next;
        let at = (number - *begun) as usize;
        if at >= open.len() {
            open.push_back(Gathering::default());
        }
        let Some(gathering) = open.get_mut(at) else {
            return Err(AddError::Inconsistent("an all-reduce of this host was left out"));
        };
        if let Some((other, first)) = gathering.pending.first_key_value()
            && !first.share.matches(&share)
        {
            let kinds = [first.share.kind(), share.kind()];
            return Err(AddError::Different { other: *other, kinds });
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
            let given_up = gathering.given_up.into_iter().collect();
            // If the receiver is gone, the job is over, and the processes get an error.
            let _ = self.ready.send(Ready { pending, position, epoch: state.epoch, given_up });
        }
        Ok(Added::Awaited(number, answer))
    }

    /// Refuses further shares, and returns those of all-reduces that are not complete.
    pub(super) fn close(&self) -> Vec<Pending> {
        let mut state = self.state.lock();
        state.closed = true;
        state.start_over()
    }

    /// Answers all-reduces with `answer` until the processes synchronise for `generation`, or while the
    /// worker is detached (`None`). Returns the all-reduces that are not complete, which get this answer, too.
    pub(super) fn interrupt(
        &self,
        epoch: u64,
        answer: &v1::AllReduceResponse,
        generation: Option<u32>,
    ) -> Vec<Pending> {
        let mut state = self.state.lock();
        if state.epoch != epoch {
            return Vec::new();
        }
        let left = state.start_over();
        let behind = (0..state.next.len() as u32).collect();
        state.interruption = Some(Interruption { answer: answer.clone(), generation, behind });
        left
    }

    /// Breaks the streams of processes whose all-reduce was refused. Returns the all-reduces that are not
    /// complete, which are refused, too.
    pub(super) fn break_off(&self, epoch: u64, refused: &[Pending]) -> Vec<Pending> {
        let mut state = self.state.lock();
        refused.iter().for_each(|pending| pending.share.position.break_off());
        if state.epoch == epoch { state.start_over() } else { Vec::new() }
    }

    /// Returns true if the last answer was that the worker is detached.
    pub(super) fn is_detached(&self) -> bool {
        let state = self.state.lock();
        state.interruption.as_ref().is_some_and(|interruption| interruption.generation.is_none())
    }

    /// Ends the interruption of a detached worker, which is a member again. The worker then orders its
    /// processes to synchronise.
    pub(super) fn end_detachment(&self) {
        self.state.lock().interruption.take_if(|interruption| interruption.generation.is_none());
    }

    /// Notes that an all-reduce that all processes had started has ended.
    pub(super) fn note_end(&self) {
        self.state.lock().ended += 1;
        self.progress.send_replace(());
    }

    /// Waits until the deadline of a process's all-reduce has passed, and returns the deadline's beginning.
    ///
    /// Normally, it begins when all earlier all-reduces have ended. Behind an all-reduce that the process has given up,
    /// both deadlines begin together; otherwise the deadlines of all would pass one after the other.
    pub(super) async fn overdue(&self, process: u32, number: u64, limit: Duration) -> Instant {
        let (started, mut progress) = (Instant::now(), self.progress.subscribe());
        loop {
            progress.mark_unchanged();
            if let Some(since) = self.deadline_begins(process, number, started) {
                sleep_until(since + limit).await;
                return since;
            }
            // The sender lives as long as `self`.
            let _ = progress.changed().await;
        }
    }

    fn deadline_begins(&self, process: u32, number: u64, started: Instant) -> Option<Instant> {
        let state = self.state.lock();
        if state.ended >= number {
            return Some(Instant::now());
        }
        let (before, since) = state.given_up.get(process as usize).copied().flatten()?;
        (before + 1 == number).then(|| started.max(since))
    }

    /// Takes back a process's part in an all-reduce that is not complete. Returns the processes that have
    /// not started it; `None` if it is complete. `since` is the beginning of its deadline.
    pub(super) fn give_up(&self, process: u32, number: u64, since: Instant) -> Option<Vec<u32>> {
        let mut state = self.state.lock();
        let at = usize::try_from(number.checked_sub(state.begun)?).ok()?;
        let processes = state.next.len();
        let gathering = state.open.get_mut(at)?;
        let missing = gathering.missing(processes);
        gathering.pending.remove(&process)?;
        gathering.given_up.insert(process);
        if let Some(given_up) = state.given_up.get_mut(process as usize) {
            *given_up = Some((number, since));
        }
        drop(state);
        self.progress.send_replace(());
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
        Some((oldest.missing(state.next.len()), name))
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
}
