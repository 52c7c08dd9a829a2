//! The state and the work of a worker's thread.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mio::Waker;
use tokio::sync::oneshot;
use tributary_api::{JobConfig, Role, v1};
use tributary_protocol::{
    CollectiveError, FinishedSlice, OperationId, StripedReduced, Time, Timers, WorkerProgress, WorkerStats,
};
use tributary_wire::{FrameView, JobId, Rank, Seq, SliceWidth};

use super::detached::Detached;
use super::members::Members;
use super::regroup::{self, Joined};
use super::request::{Completion, ReduceRequest};
use super::stripes::{Path, Stripes, other_role};
use super::training_progress::{AllReduceEnd, StepPart, TrainingProgress};
use super::{Situation, Wait};
use crate::AgentStats;
use crate::driver::StateMachine;
use crate::error::AgentError;
use crate::link::{FrameLink, StripePort, Verdict};

/// The sender of an all-reduce's result to its caller. The result is dropped if the caller no longer
/// waits for it.
type ReduceReply = oneshot::Sender<Result<Completion, AgentError>>;

/// An operation that has not ended.
struct Pending {
    reply: ReduceReply,
    part: StepPart,
    /// The time limit, counted from the end of the preceding operation.
    deadline: Option<Duration>,
    /// The time at which the operation was started.
    started: Time,
    /// The joiners that this operation synchronises with the members; `None` if it does not synchronise.
    synchronises: Option<Joined>,
}

/// The state of a worker's thread.
pub struct WorkerState {
    stripes: Stripes,
    path: Path,
    training_progress: TrainingProgress,
    /// The reason while the job continues without this worker.
    detached: Option<Detached>,
    rank: Rank,
    width: SliceWidth,
    window: u32,
    /// The number of switches that added the job's gradients when the worker joined.
    switches: u32,
    members: Arc<Members>,
    /// The joiners with which the process must synchronise.
    joined: Option<Joined>,
    pending: BTreeMap<OperationId, Pending>,
    /// The oldest pending operation, and the time since which it has been the oldest.
    oldest: Option<(OperationId, Time)>,
    /// The time at which the preceding operation became the oldest, if that operation was abandoned. The
    /// deadlines of the two operations run together.
    given_up: Option<Time>,
    /// Operations that wait for the outcome of a synchronising operation. If that operation fails to
    /// synchronise the members, they must not be reduced.
    behind: VecDeque<(ReduceRequest, ReduceReply)>,
    /// The value that is kept with the data of each operation that the worker still has, pending or not.
    held: BTreeMap<OperationId, Box<dyn Any + Send>>,
    /// Receives the progress when the worker has proceeded as far as ordered.
    proceeding: Option<oneshot::Sender<Result<WorkerProgress, AgentError>>>,
    /// The time at which the worker was frozen, if it is frozen.
    frozen: Option<Time>,
    /// The time of the last result, and the number of results at that time.
    heard: (Time, u64),
    /// The time of the last event that let operations continue: a result, or a change of generation.
    moved: Time,
}

impl WorkerState {
    /// Creates the state of a worker's thread, which `waker` wakes. The second and each further stripe gets
    /// one of the `ports`.
    pub(super) fn new(
        config: &JobConfig,
        timers: Timers,
        ports: Vec<StripePort>,
        waker: &Arc<Waker>,
    ) -> Result<Self, AgentError> {
        let Role::Worker { rank, .. } = &config.role else { return Err(other_role(config)) };
        let members = Arc::new(Members::new(config, None));
        Ok(Self {
            stripes: Stripes::new(config, timers, ports, waker)?,
            path: Path::new(config)?,
            training_progress: TrainingProgress::default(),
            detached: None,
            rank: *rank,
            width: config.width,
            window: config.window,
            switches: config.switches,
            joined: Joined::new(config, &members),
            members,
            pending: BTreeMap::new(),
            oldest: None,
            given_up: None,
            behind: VecDeque::new(),
            held: BTreeMap::new(),
            proceeding: None,
            frozen: None,
            heard: (Time::ZERO, 0),
            moved: Time::ZERO,
        })
    }

    /// Returns the worker's rank.
    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// Handles a new request for an all-reduce.
    pub(super) fn reduce(&mut self, now: Time, request: ReduceRequest, reply: ReduceReply) {
        self.training_progress.begin(now);
        self.admit(now, request, reply);
    }

    /// Starts an operation, or queues it behind a synchronising operation, unless it can be answered
    /// immediately.
    fn admit(&mut self, now: Time, request: ReduceRequest, reply: ReduceReply) {
        let refusal = if let Some(detached) = &self.detached {
            AgentError::Detached(detached.clone())
        } else if request.position.is_broken() {
            AgentError::StreamBroken
        } else if let Some(joined) =
            self.joined.as_ref().filter(|joined| joined.generation != request.regroup)
        {
            self.regroup_error(joined)
        } else if self.is_synchronising() || !self.behind.is_empty() {
            return self.behind.push_back((request, reply));
        } else {
            return self.start(now, request, reply);
        };
        let part = request.part;
        // The memory of the request must be released first, because its caller may request the next all-reduce.
        drop(request);
        self.answer(now, part, reply, Err(refusal));
    }

    fn start(&mut self, now: Time, request: ReduceRequest, reply: ReduceReply) {
        let ReduceRequest { operations, deadline, part, position, held, .. } = request;
        match self.stripes.start(operations) {
            Ok(id) => {
                let synchronises = self.joined.take();
                self.held.insert(id, held);
                self.pending.insert(id, Pending { reply, part, deadline, started: now, synchronises });
                self.note_oldest(now);
            }
            Err(error) => {
                position.break_off();
                self.answer(now, part, reply, Err(error.into()));
            }
        }
    }

    fn is_synchronising(&self) -> bool {
        self.pending.values().any(|pending| pending.synchronises.is_some())
    }

    /// Handles the operations that waited for a synchronising operation as if they were requested now.
    fn let_follow(&mut self, now: Time) {
        while !self.is_synchronising()
            && let Some((request, reply)) = self.behind.pop_front()
        {
            let rest = std::mem::take(&mut self.behind);
            self.admit(now, request, reply);
            self.behind.extend(rest);
        }
    }

    /// Determines the oldest pending operation, and the time from which its deadline counts.
    /// Normally, the deadline counts from the end of all earlier operations. Behind an abandoned operation, it counts
    /// from the start of the abandoned operation's deadline, or from the last progress since then. Otherwise the
    /// deadlines of all operations under way would run out one after the other.
    fn note_oldest(&mut self, now: Time) {
        let oldest = self.pending.first_key_value().map(|(id, pending)| (*id, pending.started));
        if self.oldest.map(|(id, _)| id) != oldest.map(|(id, _)| id) {
            let given_up = self.given_up.take();
            let since = |started: Time| given_up.map_or(now, |since| started.max(since).max(self.moved));
            self.oldest = oldest.map(|(id, started)| (id, since(started)));
        }
    }

    /// Sends the result of an all-reduce to its caller.
    fn answer(
        &mut self,
        now: Time,
        part: StepPart,
        reply: ReduceReply,
        result: Result<Completion, AgentError>,
    ) {
        let end = match &result {
            Ok(_) => AllReduceEnd::Result,
            Err(AgentError::Regroup { .. } | AgentError::Detached(_)) => AllReduceEnd::Interruption,
            Err(_) => AllReduceEnd::Failure,
        };
        self.training_progress.end(now, part, end);
        let _ = reply.send(result);
    }

    fn regroup_error(&self, joined: &Joined) -> AgentError {
        AgentError::Regroup { regroup: joined.regroup(&self.members), members: Arc::clone(&self.members) }
    }

    /// Freezes the worker, and returns the progress.
    pub(super) fn freeze(&mut self) -> Result<WorkerProgress, AgentError> {
        self.stripes.freeze()?;
        self.stop_proceeding();
        self.stripes.progress()
    }

    /// Continues until `until` operations are done, and then sends the progress.
    pub(super) fn proceed(
        &mut self,
        now: Time,
        until: u64,
        reply: oneshot::Sender<Result<WorkerProgress, AgentError>>,
    ) {
        self.stop_proceeding();
        match self.stripes.proceed(now, until) {
            Ok(()) => self.proceeding = Some(reply),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Returns the results of the `slices` that the worker still has.
    pub(super) fn finished(&self, slices: &[Seq]) -> Result<Vec<FinishedSlice>, AgentError> {
        self.stripes.finished(slices)
    }

    /// Sends the present progress to the caller of `proceed`, even if the worker has not finished.
    fn stop_proceeding(&mut self) {
        if let Some(reply) = self.proceeding.take() {
            let _ = reply.send(self.stripes.progress());
        }
    }

    /// Takes no part in the job until a change to another generation.
    pub(super) fn detach(&mut self, now: Time, detached: Detached) -> Result<(), AgentError> {
        self.stop_proceeding();
        self.stripes.detach()?;
        for Pending { part, reply, .. } in std::mem::take(&mut self.pending).into_values() {
            self.answer(now, part, reply, Err(AgentError::Detached(detached.clone())));
        }
        self.detached = Some(detached);
        Ok(())
    }

    /// Makes the worker a member again. It begins at the position that the configuration states.
    fn come_back(&mut self, config: &JobConfig) -> Result<(), AgentError> {
        self.check(config)?;
        self.stripes.restart(config)?;
        self.path = Path::new(config)?;
        self.detached = None;
        self.switches = config.switches;
        self.members = Arc::new(Members::new(config, None));
        self.joined = Joined::new(config, &self.members);
        (self.oldest, self.given_up, self.frozen) = (None, None, None);
        (self.heard, self.moved) = ((Time::ZERO, 0), Time::ZERO);
        self.behind.clear();
        self.held.clear();
        Ok(())
    }

    /// Checks the configuration of another generation for this worker.
    fn check(&self, config: &JobConfig) -> Result<(), AgentError> {
        let Role::Worker { rank, .. } = &config.role else { return Err(other_role(config)) };
        let stripes = config.start_seqs.len() as u32;
        if (*rank, config.width, config.window, stripes)
            != (self.rank, self.width, self.window, self.stripes.count())
        {
            let problem = "a worker keeps its rank, and a job its window, its threads and the width of its \
                           slices";
            return Err(AgentError::Change { job: config.name.clone(), problem: problem.to_owned() });
        }
        Ok(())
    }

    /// Changes to another generation.
    pub(super) fn change(&mut self, now: Time, config: &JobConfig) -> Result<(), AgentError> {
        if let Some(detached) = &self.detached {
            // An order for a generation in which the worker was a member is out of date.
            let is_news = config.generation > detached.generation;
            return if is_news { self.come_back(config) } else { Ok(()) };
        }
        let is_held = self.stripes.is_frozen() || self.proceeding.is_some();
        self.stop_proceeding();
        if config.generation == self.members.generation {
            // The change was cancelled, or the controller does not know that it is done.
            if is_held {
                self.stripes.proceed(now, u64::MAX)?;
            }
            return Ok(());
        }
        self.check(config)?;
        let path = Path::new(config)?;
        let members = Arc::new(Members::new(config, Some(&self.members)));
        let joined = Joined::new(config, &members);
        // Operations that have not begun must wait until the members have synchronised.
        let withdrawn = if joined.is_some() { self.stripes.withdraw_waiting()? } else { Vec::new() };
        // If one of them was to synchronise the members, they still have to.
        let mut unfinished = withdrawn.iter().filter_map(|id| self.pending.get_mut(id)?.synchronises.take());
        if let Some(earlier) = unfinished.next() {
            self.joined.get_or_insert(earlier);
        }
        self.stripes.change(now, config)?;
        self.path = path;
        self.members = members;
        self.joined = match (joined, self.joined.take()) {
            (Some(joined), Some(earlier)) => Some(joined.with_earlier(earlier)),
            (joined, earlier) => joined.or(earlier),
        };
        self.moved = now;
        for operation in withdrawn {
            self.held.remove(&operation);
            if let (Some(pending), Some(joined)) = (self.pending.remove(&operation), &self.joined) {
                let error = self.regroup_error(joined);
                self.answer(now, pending.part, pending.reply, Err(error));
            }
        }
        Ok(())
    }

    fn completed(&mut self, now: Time, operation: OperationId, pending: Pending, reduced: StripedReduced) {
        let Pending { reply, part, synchronises, .. } = pending;
        let held = self.held.remove(&operation);
        let result = match synchronises {
            Some(joined) if !regroup::is_led(&reduced.reduced) => Err(self.synchronise_again(joined)),
            _ => Ok(Completion { reduced, members: Arc::clone(&self.members), held }),
        };
        self.answer(now, part, reply, result);
    }

    fn failed(&mut self, now: Time, pending: Pending, error: CollectiveError) {
        // Without the result of this operation, the members have not synchronised.
        let again = pending.synchronises.map(|joined| self.synchronise_again(joined));
        let error = match (pending.deadline, error) {
            (Some(limit), error @ CollectiveError::Abandoned { .. }) => {
                // Only the oldest operation can have exceeded its deadline.
                let since = self.oldest.map_or(now, |(_, since)| since);
                self.given_up = Some(since);
                let (wait, error) = (Box::new(self.wait(now, since)), Box::new(error));
                AgentError::Deadline { limit, wait, error, absent: Vec::new(), setback: String::new() }
            }
            (_, CollectiveError::Withheld { tensor, rank }) => {
                let ranks = self.members.processes.ranks_of(rank);
                again.unwrap_or(AgentError::Withheld { tensor, ranks })
            }
            (_, error) => error.into(),
        };
        self.answer(now, pending.part, pending.reply, Err(error));
    }

    /// Returns the error that orders the process to synchronise (again), and gives this error to its next
    /// operations, too.
    fn synchronise_again(&mut self, joined: Joined) -> AgentError {
        let joined = self.joined.get_or_insert(joined).clone();
        self.regroup_error(&joined)
    }

    /// Returns the deadline of the oldest operation. No later operation has an earlier deadline.
    fn deadline(&self) -> Option<Time> {
        let (id, since) = self.oldest?;
        Some(since + self.pending.get(&id)?.deadline?)
    }

    /// Abandons the oldest operation if its deadline has passed.
    fn abandon_overdue(&mut self, now: Time) {
        if let Some((operation, _)) = self.oldest
            && self.deadline().is_some_and(|at| at <= now)
        {
            self.stripes.abandon(operation);
        }
    }

    /// Returns the cause of the operations' wait. `since` is the time at which the oldest operation
    /// became the oldest.
    fn wait(&self, now: Time, since: Time) -> Wait {
        // If another stripe's thread has ended, the worker is about to end, too.
        let slice = self.stripes.progress().ok().and_then(|progress| progress.oldest_awaited());
        let (heard, moved) = match self.stripes.results() == self.heard.1 {
            true => (self.heard.0, self.moved),
            false => (now, now),
        };
        Wait {
            silent: now - since.max(heard),
            unmoved: now - since.max(moved),
            slice,
            frozen: self.frozen.map(|since| now - since),
        }
    }

    /// Returns the wait of the pending operations, if there are any.
    fn present_wait(&self, now: Time) -> Option<Wait> {
        self.oldest.map(|(_, since)| self.wait(now, since))
    }

    pub(super) fn situation(&self, now: Time) -> Situation {
        Situation {
            rank: self.rank,
            window: self.window,
            switches: self.switches,
            members: Arc::clone(&self.members),
            regroup: self.joined.as_ref().map(|joined| joined.regroup(&self.members)),
            detached: self.detached.clone(),
            wait: self.present_wait(now),
            has_given_up: self.stripes.has_given_up() || !self.behind.is_empty(),
        }
    }

    /// Returns the progress that the agent regularly reports to the controller, without the job's name.
    pub(super) fn progress(&self, now: Time) -> v1::JobProgress {
        let wait = self.present_wait(now);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        v1::JobProgress {
            stalled_milliseconds: wait.map_or(0, |wait| milliseconds(wait.silent)),
            stalled_in_generation_milliseconds: wait.map_or(0, |wait| milliseconds(wait.unmoved)),
            ..self.training_progress.progress()
        }
    }
}

impl StateMachine for WorkerState {
    type Stats = WorkerStats;

    fn job(&self) -> Option<JobId> {
        Some(self.path.job())
    }

    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict {
        if self.detached.is_some() {
            return Verdict::NotOurs;
        }
        self.path.receive(&mut self.stripes.own, now, frame)
    }

    fn transmit(&mut self, now: Time, link: &mut FrameLink) -> Result<(), AgentError> {
        if self.detached.is_some() {
            return Ok(());
        }
        self.stripes.check()?;
        self.path.transmit(&mut self.stripes.own, now, link)
    }

    fn next_timeout(&self) -> Option<Time> {
        if self.detached.is_some() {
            return None;
        }
        self.stripes.own.poll_timeout().into_iter().chain(self.deadline()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.stripes.own.handle_timeout(now);
        self.abandon_overdue(now);
    }

    fn report(&mut self, now: Time) {
        while let Some((operation, outcome)) = self.stripes.poll_ended() {
            // The caller of an abandoned operation has already got its answer.
            let Some(pending) = self.pending.remove(&operation) else { continue };
            match outcome {
                Ok(reduced) => self.completed(now, operation, pending, reduced),
                Err(error) => self.failed(now, pending, error),
            }
        }
        self.note_oldest(now);
        self.let_follow(now);
        // Operations are done in the order in which they were started.
        let done = OperationId(self.stripes.done());
        while self.held.first_key_value().is_some_and(|(operation, _)| *operation < done) {
            self.held.pop_first();
        }
        if self.stripes.is_frozen() {
            self.frozen.get_or_insert(now);
            self.stop_proceeding();
        } else {
            self.frozen = None;
        }
        let results = self.stripes.results();
        if results != self.heard.1 {
            (self.heard, self.moved) = ((now, results), now);
        }
    }

    fn stats(&self) -> WorkerStats {
        self.stripes.own.stats()
    }

    fn with_others(&self, own: AgentStats<WorkerStats>) -> AgentStats<WorkerStats> {
        self.stripes.with_others(own)
    }
}
