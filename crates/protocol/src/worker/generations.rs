//! The change of a worker from one generation of its job to the next.
//!
//! While the server stays, it alone decides which slices are finished, and each worker changes to the next generation
//! independently. If the server changes, or a member joins, the controller first freezes all workers, so that the
//! progress that they report stays correct until they change.

use std::collections::VecDeque;
use std::time::Duration;

use tributary_wire::{JobId, JobSecret, Rank, Seq, SliceWidth};

use super::Worker;
use super::slots::Slots;
use crate::config::{ConfigError, check_members};
use crate::operation::OperationId;
use crate::tags::Membership;
use crate::takeover::FinishedSlice;
use crate::time::Time;

/// State that decides whether a worker continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// The worker continues.
    Open,
    /// The worker continues until this number of operations, counted from the job's start, is done.
    Until(u64),
    /// The worker sends nothing, accepts no result and begins no operation.
    Frozen,
}

/// The progress of a worker in its job. All members count operations and slices alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgress {
    /// The number of operations that have begun since the job's start.
    pub begun: u64,
    /// For each stripe, the first slice of the next operation, once all operations that have begun are
    /// done.
    pub next: Vec<Seq>,
    /// True if all operations that have begun are done.
    pub idle: bool,
    /// For each slot of the window or of the stripe, in slot order, the slice that is due:
    /// the slot's first slice without a result.
    pub dues: Vec<Seq>,
}

impl WorkerProgress {
    /// Returns the progress of a worker from that of its stripes, in the order of the stripes.
    pub fn of_stripes(stripes: &[Self]) -> Self {
        let begun = stripes.iter().map(|stripe| stripe.begun).max().unwrap_or_default();
        let idle = stripes.iter().all(|stripe| stripe.idle && stripe.begun == begun);
        let next = stripes.iter().flat_map(|stripe| stripe.next.iter().copied()).collect();
        let mut dues: Vec<Seq> = stripes.iter().flat_map(|stripe| stripe.dues.iter().copied()).collect();
        let mask = (dues.len() as u32).wrapping_sub(1);
        dues.sort_unstable_by_key(|due| due.0 & mask);
        Self { begun, next, idle, dues }
    }

    /// Returns the oldest slice whose result the worker awaits, in any stripe.
    pub fn oldest_awaited(&self) -> Option<Seq> {
        let mask = (self.next.len() as u32).wrapping_sub(1);
        let ahead = |due: &Seq| {
            let next = self.next.iter().find(|next| (next.0 ^ due.0) & mask == 0)?;
            next.is_newer_than(*due).then(|| (next.distance(*due), *due))
        };
        let oldest = self.dues.iter().filter_map(ahead).max_by_key(|(ahead, _)| *ahead);
        oldest.filter(|_| !self.idle).map(|(_, due)| due)
    }
}

/// The generations in which the slices under way may have been summed.
#[derive(Debug, Clone)]
pub(super) struct Generations {
    /// The present members in order.
    members: Vec<Rank>,
    present: Membership,
    /// The earlier memberships since this worker was last idle, oldest first; at most [`MOST`].
    past: VecDeque<Membership>,
    /// The number of memberships that were removed from the front of `past`.
    before: usize,
}

/// The maximum number of past generations that a worker keeps.
/// If a result belongs to an older generation, its slice fails verification, and so does the operation.
const MOST: usize = 4096;

impl Generations {
    /// # Errors
    /// [`ConfigError`] if the members are invalid, or if `rank` is not a member.
    pub(super) fn new(
        job_wide: (&JobSecret, SliceWidth),
        job: JobId,
        rank: Rank,
        members: Vec<Rank>,
    ) -> Result<Self, ConfigError> {
        let members = members_with(rank, members)?;
        let present = Membership::new(job_wide, job, &members);
        Ok(Self { members, present, past: VecDeque::new(), before: 0 })
    }

    /// Returns the number of the present generation, counted from 0 for the first.
    pub(super) fn number(&self) -> usize {
        self.before + self.past.len()
    }

    /// Returns the present members.
    pub(super) fn present(&self) -> &Membership {
        &self.present
    }

    /// Returns the memberships from generation number `number` on.
    pub(super) fn since(&self, number: usize) -> impl DoubleEndedIterator<Item = &Membership> + Clone {
        self.past.iter().skip(number.saturating_sub(self.before)).chain([&self.present])
    }

    /// Changes to a new generation.
    /// `between` is true if no operation is under way. Then members may join, and earlier generations are not needed.
    fn change(
        &mut self,
        job: JobId,
        rank: Rank,
        members: Vec<Rank>,
        between: bool,
    ) -> Result<(), ConfigError> {
        let members = members_with(rank, members)?;
        let joins = |rank: &&Rank| self.members.binary_search(rank).is_err();
        if let Some(&joiner) = members.iter().find(joins).filter(|_| !between) {
            return Err(ConfigError::JoinInside(joiner));
        }
        let next = self.present.next(job, &members);
        self.past.push_back(std::mem::replace(&mut self.present, next));
        let gone = if between { self.past.len() } else { self.past.len().saturating_sub(MOST) };
        self.before += self.past.drain(..gone).count();
        self.members = members;
        Ok(())
    }
}

fn members_with(rank: Rank, members: Vec<Rank>) -> Result<Vec<Rank>, ConfigError> {
    let members = check_members(members)?;
    members.binary_search(&rank).map_err(|_| ConfigError::NotAMember(rank))?;
    Ok(members)
}

impl Worker {
    /// Freezes the worker, so that its [progress](Self::progress) does not change.
    /// A frozen worker accepts no result, sends nothing and begins no operation. Operations that the caller starts wait
    /// in order. [`proceed`](Self::proceed) or [`change_generation`](Self::change_generation) ends the freeze.
    pub fn freeze(&mut self) {
        self.gate = Gate::Frozen;
    }

    /// Returns true if the worker is frozen.
    /// It is frozen after [`freeze`](Self::freeze), or when it has reached the end that [`proceed`](Self::proceed) set.
    pub fn is_frozen(&self) -> bool {
        self.gate == Gate::Frozen
    }

    /// Returns the worker's progress. It does not change while the worker is [frozen](Self::is_frozen).
    pub fn progress(&self) -> WorkerProgress {
        WorkerProgress {
            begun: self.operations.begun(),
            next: vec![self.operations.next_seq()],
            idle: self.operations.is_empty(),
            dues: self.slots.dues().collect(),
        }
    }

    /// Continues in the present generation until `until` operations, counted from the job's start, are
    /// done.
    /// Then the worker is frozen again, and idle. If they are done already, it stays frozen. If the caller passes the
    /// largest [`begun`](WorkerProgress::begun) of all members, all members stop after the same operation.
    pub fn proceed(&mut self, now: Time, until: u64) {
        self.gate = Gate::Until(until);
        self.begin_waiting();
        self.ask_for_everything(now);
        self.stop_at_boundary();
    }

    /// Changes to a new generation of the job, and ends a freeze.
    /// The worker sends slices without a result again under the new job id, and begins waiting operations. Members may
    /// leave at any time. Members may join only if this worker is frozen and idle.
    ///
    /// # Errors
    /// [`ConfigError`] if the members are invalid, if a member would join inside an operation, or if `job` is not a new
    /// job id. The old generation then stays.
    pub fn change_generation(&mut self, now: Time, job: JobId, members: &[Rank]) -> Result<(), ConfigError> {
        if job == self.job {
            return Err(ConfigError::SameJob(job));
        }
        let between = self.is_frozen() && self.operations.is_empty();
        self.generations.change(job, self.rank, members.to_vec(), between)?;
        self.job = job;
        self.gate = Gate::Open;
        self.pace.restart();
        self.begin_waiting();
        self.ask_for_everything(now);
        Ok(())
    }

    /// Sets the time for which one slice occupies the slowest link of the present tree.
    /// See [`Timers::slice_time`](crate::Timers::slice_time).
    pub fn set_slice_time(&mut self, slice_time: Duration) {
        self.recovery.set_slice_time(slice_time);
    }

    /// Returns the result of the slice `seq`, if it is the last result of its slot.
    /// The worker keeps it until the slot's next slice has a result, even if its operation is done.
    pub fn finished(&self, seq: Seq) -> Option<&FinishedSlice> {
        self.slots.finished(seq)
    }

    /// Withdraws the operations that wait for the end of a freeze, and returns their ids.
    /// They never begin and report no outcome. Abandoned operations are dropped too, but not returned. Later operations
    /// get the same ids. A caller uses this if the members of its job have changed, before
    /// [`change_generation`](Self::change_generation) would begin the operations. All members must do it alike.
    pub fn withdraw_waiting(&mut self) -> Vec<OperationId> {
        let begun = self.operations.begun();
        let waiting = std::mem::take(&mut self.waiting);
        let numbered = (begun..).map(OperationId).zip(waiting);
        numbered
            .filter(|(_, waiting)| waiting.as_ref().is_some_and(|waiting| !waiting.abandoned))
            .map(|(id, _)| id)
            .collect()
    }

    /// Begins waiting operations, while the gate and the bounds of the last operation allow it.
    pub(super) fn begin_waiting(&mut self) {
        while self.may_begin()
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.begin(waiting);
        }
    }

    fn may_begin(&self) -> bool {
        if self.operations.next_position().is_none() {
            return false;
        }
        match self.gate {
            Gate::Open => true,
            Gate::Until(until) => self.operations.begun() < until,
            Gate::Frozen => false,
        }
    }

    /// Freezes the worker if it has reached the operation at which it must stop.
    pub(super) fn stop_at_boundary(&mut self) {
        if let Gate::Until(until) = self.gate
            && self.operations.begun() >= until
            && self.operations.is_empty()
        {
            self.gate = Gate::Frozen;
        }
    }

    /// Queues every slice again whose result this worker may have missed.
    /// Its last packet had an obsolete job id, or its result came during a freeze.
    fn ask_for_everything(&mut self, now: Time) {
        self.recovery.restart(now);
        let unanswered: Vec<u64> = self.slots.unanswered().collect();
        for position in unanswered {
            self.ask_again(position, |_| {});
        }
    }
}

impl Slots {
    /// Returns the slice that each slot waits for, in slot order.
    fn dues(&self) -> impl Iterator<Item = Seq> {
        self.positions().map(|position| self.seq(position))
    }
}
