//! One slot of the server: the slice that is being aggregated, and the finished slice before it.

use std::sync::Arc;
use std::time::Duration;

use tributary_wire::values::read;
use tributary_wire::{Header, JobId, Operator, Rank, Seq, SliceWidth, Totals, ValuesView};

use crate::tags::Membership;
use crate::takeover::FinishedSlice;
use crate::time::Time;

/// The bits that MAX compares. Like the switches, it ignores the sign bit and compares unsigned 31-bit
/// numbers.
const MAX_MASK: i32 = i32::MAX;

/// The sum of one slice, unfinished or finished.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    /// The data-plane id of the generation that sums the slice.
    pub(super) job: JobId,
    pub(super) operator: Operator,
    pub(super) totals: Totals,
    pub(super) values: Box<[i32]>,
    /// False if the server knows only that the slice is finished, and not its values.
    pub(super) has_values: bool,
    /// The members of the generation that finished the slice; set only if the server reads sums.
    pub(super) members: Option<Arc<Membership>>,
}

impl Sum {
    fn empty(job: JobId, values: usize) -> Self {
        Self {
            job,
            operator: Operator::Sum,
            totals: Totals::default(),
            values: vec![0; values].into(),
            has_values: true,
            members: None,
        }
    }

    /// Returns an empty sum of equal width.
    fn another(&self) -> Self {
        Self::empty(self.job, self.values.len())
    }

    fn store(&mut self, operator: Operator, totals: Totals, values: ValuesView<'_>) {
        self.operator = operator;
        self.totals = totals;
        self.has_values = !values.is_empty();
        read(values, &mut self.values);
    }

    /// Adds a contribution.
    /// The operator of the first contribution applies to all. If a later contribution has another operator, the sum is
    /// wrong and its tag reveals the error. A rejection would make all members wait.
    fn add(&mut self, header: &Header, values: ValuesView<'_>) {
        self.totals.add(header.totals);
        let pairs = self.values.iter_mut().zip(values.iter());
        match self.operator {
            Operator::Sum => pairs.for_each(|(sum, value)| *sum = sum.wrapping_add(value)),
            Operator::Max => pairs.for_each(|(most, value)| *most = (*most & MAX_MASK).max(value & MAX_MASK)),
            // A relayed slice is finished by its first contribution.
            Operator::Relay => {}
        }
    }
}

/// Effect of a contribution on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContributionEffect {
    /// The sum already contains a contribution of this child.
    Duplicate,
    /// The contribution was added, and contributions of other children are missing.
    Added,
    /// The contribution was the last one, so the slice is finished.
    Finished,
}

/// A slot of the server's window.
#[derive(Debug, Clone)]
pub(super) struct ServerSlot {
    /// The slice that the slot sums now. All earlier slices of the slot are finished (rule 6).
    pub(super) due: Seq,
    /// The set of children whose contributions to `due` are in `partial`, as a bit mask.
    pub(super) children: u64,
    pub(super) partial: Sum,
    /// The sum of the slice one window before `due`; `None` if that slice is before the job's start.
    pub(super) finished: Option<Sum>,
    /// The members to which the server has sent the finished slice.
    pub(super) answers: Answers,
}

impl ServerSlot {
    pub(super) fn new(due: Seq, job: JobId, width: SliceWidth) -> Self {
        Self {
            due,
            children: 0,
            partial: Sum::empty(job, width.values()),
            finished: None,
            answers: Answers::default(),
        }
    }

    /// Stores the result of the slice before `due`, which a member received from the failed server.
    pub(super) fn take_over(&mut self, slice: &FinishedSlice) {
        let sum = self.finished.get_or_insert_with(|| self.partial.another());
        sum.job = slice.job;
        sum.store(slice.operator, slice.totals, slice.values());
    }

    /// Returns true if no contribution to the due slice has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.children == 0
    }

    /// Returns the sum of the slice `seq`, if it is the finished slice of this slot.
    pub(super) fn finished_slice(&self, seq: Seq, window: u32) -> Option<&Sum> {
        self.finished.as_ref().filter(|_| seq.plus(window) == self.due)
    }

    /// Adds a contribution to the due slice, like a switch does.
    /// A relayed contribution finishes the slice, in place of others that the slot may have.
    pub(super) fn contribute(
        &mut self,
        header: &Header,
        values: ValuesView<'_>,
        child: u8,
        fan_in: u8,
        window: u32,
    ) -> ContributionEffect {
        let bit = 1 << child;
        if header.operator == Operator::Relay {
            self.partial.store(header.operator, header.totals, values);
            self.finish(window);
            return ContributionEffect::Finished;
        }
        if self.children & bit != 0 {
            return ContributionEffect::Duplicate;
        }
        if self.is_empty() {
            self.partial.store(header.operator, header.totals, values);
        } else {
            self.partial.add(header, values);
        }
        self.children |= bit;
        if self.children.count_ones() < u32::from(fan_in) {
            return ContributionEffect::Added;
        }
        self.finish(window);
        ContributionEffect::Finished
    }

    /// Makes the partial sum the finished slice, and begins the slot's next slice.
    fn finish(&mut self, window: u32) {
        self.children = 0;
        let spare = self.finished.take().unwrap_or_else(|| self.partial.another());
        let spare = Sum { job: self.partial.job, ..spare };
        self.finished = Some(std::mem::replace(&mut self.partial, spare));
        self.due = self.due.plus(window);
    }

    /// Discards the contributions to the due slice, and the record of receivers of the finished slice.
    /// Both belong to the previous generation, whose packets the members do not accept any more.
    pub(super) fn restart(&mut self, job: JobId) {
        self.children = 0;
        self.partial.job = job;
        self.answers = Answers::default();
    }
}

/// The times at which the server sent a finished slice, by receiver.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    to_all: Option<Time>,
    /// The ranks that requested the slice since then, each with the time of the answer.
    to_one: Vec<(Rank, Time)>,
    /// True if a member has sent a retransmit request.
    asked: bool,
}

/// Answer to a retransmit request for a finished slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Send nothing, because an answer is on its way to this rank.
    Wait,
    /// Send the result to this rank, because only this rank has requested it recently.
    One,
    /// Send the result to all members, because several members have requested it recently.
    All,
}

impl Answers {
    /// Records that the server sends the slice to all members.
    pub(super) fn sent_to_all(&mut self, now: Time) {
        self.to_all = Some(now);
        self.to_one.clear();
    }

    /// Returns the time at which the server sent the slice to all members, if no member has requested it
    /// since.
    pub(super) fn only_sent(&self) -> Option<Time> {
        self.to_all.filter(|_| !self.asked)
    }

    /// Decides how to answer a request of `rank`, and records the decision.
    /// An answer that the server sent less than `on_its_way` ago may have crossed the request.
    pub(super) fn decide(&mut self, now: Time, rank: Rank, on_its_way: Duration, multicast: bool) -> Answer {
        self.asked = true;
        if self.to_all.is_some_and(|sent| now - sent < on_its_way) {
            return Answer::Wait;
        }
        self.to_one.retain(|&(_, sent)| now - sent < on_its_way);
        if self.to_one.iter().any(|&(to, _)| to == rank) {
            return Answer::Wait;
        }
        if multicast && !self.to_one.is_empty() {
            self.sent_to_all(now);
            return Answer::All;
        }
        self.to_one.push((rank, now));
        Answer::One
    }
}

pub(super) fn index_of(slots: &[ServerSlot], seq: Seq) -> usize {
    seq.0 as usize & slots.len().wrapping_sub(1)
}
