//! The change of a worker from one generation of its job to the next.
//!
//! While the server stays, it alone decides which slices are finished, and each worker changes to the next generation
//! in its own time. If the server changes, or a member joins, the controller freezes all workers first, so that the
//! positions that they report stay true until they change.

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
    /// It does.
    Open,
    /// The worker runs until this number of operations, counted from the job's start, is done.
    Until(u64),
    /// It sends nothing, takes no result and begins no operation.
    Frozen,
}

/// Where a worker stands in its job. The numbers are alike on all members, whatever happened before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Operations begun since the job's start.
    pub begun: u64,
    /// Where the next operation would begin, once all operations that were begun are done.
    pub next: Seq,
    /// True if all operations that were begun are done.
    pub idle: bool,
    /// For each of the window's slots, in slot order, the slice that it waits for: the first one of the
    /// slot's without a result.
    pub dues: Vec<Seq>,
}

/// The generations in which what is under way may have been summed.
#[derive(Debug, Clone)]
pub(super) struct Generations {
    /// The present members in order.
    members: Vec<Rank>,
    present: Membership,
    /// The memberships before the present one since this worker was last idle, in order, [`MOST`] at most.
    past: VecDeque<Membership>,
    /// Number of operations before these.
    before: usize,
}

/// The number of past generations that a worker keeps.
/// A slice that was first sent more generations ago fails its operation, if its result belongs to such a generation and
/// has not come earlier.
const MOST: usize = 4096;

impl Generations {
    /// # Errors
    /// [`ConfigError`] when the members make no sense, or `rank` is none of them.
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

    /// The number of the present one.
    pub(super) fn number(&self) -> usize {
        self.before + self.past.len()
    }

    /// The present members.
    pub(super) fn present(&self) -> &Membership {
        &self.present
    }

    /// Returns the memberships from number `number` on.
    pub(super) fn since(&self, number: usize) -> impl DoubleEndedIterator<Item = &Membership> + Clone {
        self.past.iter().skip(number.saturating_sub(self.before)).chain([&self.present])
    }

    /// Changes to a generation. `between` is true if no operation is under way: members may then join, and
    /// earlier generations do not matter.
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
    /// Freezes the worker, so that its [progress](Self::standing) does not change: from now on it takes no
    /// result, sends nothing and begins no operation. Operations that are started wait in order. It ends with
    /// [`proceed`](Self::proceed) or [`change_generation`](Self::change_generation).
    pub fn freeze(&mut self) {
        self.gate = Gate::Frozen;
    }

    /// Returns true if the worker is frozen: by [`freeze`](Self::freeze), or because it has reached the end
    /// that [`proceed`](Self::proceed) set.
    pub fn is_frozen(&self) -> bool {
        self.gate == Gate::Frozen
    }

    /// Where it stands. Once it is [frozen](Self::is_frozen) that does not change any more.
    pub fn standing(&self) -> Standing {
        Standing {
            begun: self.operations.begun(),
            next: self.operations.next_seq(),
            idle: self.operations.is_empty(),
            dues: self.slots.dues().collect(),
        }
    }

    /// Continues in the present generation until `until` operations, counted from the job's start, are
    /// begun and done. It is frozen again then, and idle; where that is so already it stays frozen. With the most that
    /// any member has [begun](Standing::begun), all members stop at the same place.
    pub fn proceed(&mut self, now: Time, until: u64) {
        self.gate = Gate::Until(until);
        self.begin_waiting();
        self.ask_for_everything(now);
        self.stop_at_boundary();
    }

    /// Changes to a new generation of the job, and ends a freeze: slices without a result are sent again
    /// under the new job id, and operations that wait begin. `members` may have lost some; they may have gained some
    /// only while this worker is frozen and idle.
    ///
    /// # Errors
    /// [`ConfigError`] if the members are invalid, if a member would join inside an operation, or if `job` is not a new
    /// job id; the old generation then stays.
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

    /// Sets the time for which a slice keeps the slowest link of the present generation's tree busy: see
    /// [`Timers::slice_time`](crate::Timers::slice_time).
    pub fn set_slice_time(&mut self, slice_time: Duration) {
        self.recovery.set_slice_time(slice_time);
    }

    /// The last result of a slot, if it is this slice's: kept until the slot's next slice has its own,
    /// whether or not their operation is done.
    pub fn finished(&self, seq: Seq) -> Option<&FinishedSlice> {
        self.slots.finished(seq)
    }

    /// Takes back the operations that wait for the end of a freeze, except those that were abandoned: they
    /// were never begun, and will not end. Their numbers are given again. For a job whose members have changed, before
    /// [`change_generation`](Self::change_generation) lets them begin; all members must do it alike.
    pub fn withdraw_waiting(&mut self) -> Vec<OperationId> {
        let begun = self.operations.begun();
        let waiting = std::mem::take(&mut self.waiting);
        let numbered = (begun..).map(OperationId).zip(waiting);
        numbered.filter(|(_, waiting)| !waiting.abandoned).map(|(id, _)| id).collect()
    }

    /// Lets operations that wait begin, as far as they may.
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

    /// Freezes if the worker has reached the operation at which it must stop.
    pub(super) fn stop_at_boundary(&mut self) {
        if let Gate::Until(until) = self.gate
            && self.operations.begun() >= until
            && self.operations.is_empty()
        {
            self.gate = Gate::Frozen;
        }
    }

    /// Sends everything again whose result may have passed by: it was sent under an obsolete job id, or
    /// answered during a freeze.
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
