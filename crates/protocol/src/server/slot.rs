//! One slot of the server: the slice that is being aggregated, and the finished one before it.

use std::sync::Arc;
use std::time::Duration;

use tributary_wire::values::read;
use tributary_wire::{Header, JobId, Operator, Rank, Seq, SliceWidth, Totals, ValuesView};

use crate::tags::Membership;
use crate::takeover::FinishedSlice;
use crate::time::Time;

/// MAX compares unsigned 31-bit numbers: switches mask the sign bit.
const MAX_MASK: i32 = i32::MAX;

/// One slice that is, or was, aggregated.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    /// The generation that sums it.
    pub(super) job: JobId,
    pub(super) operator: Operator,
    pub(super) totals: Totals,
    pub(super) values: Box<[i32]>,
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
            members: None,
        }
    }

    /// An empty one of the same width.
    fn another(&self) -> Self {
        Self::empty(self.job, self.values.len())
    }

    fn store(&mut self, operator: Operator, totals: Totals, values: ValuesView<'_>) {
        self.operator = operator;
        self.totals = totals;
        read(values, &mut self.values);
    }

    /// Adds a contribution. One with another operator than the first's is added like the first: the sum is
    /// wrong then, and the tag says so, where a refusal would only make everyone wait.
    fn add(&mut self, header: &Header, values: ValuesView<'_>) {
        self.totals.add(header.totals);
        let pairs = self.values.iter_mut().zip(values.iter());
        match self.operator {
            Operator::Sum => pairs.for_each(|(sum, value)| *sum = sum.wrapping_add(value)),
            Operator::Max => pairs.for_each(|(most, value)| *most = (*most & MAX_MASK).max(value & MAX_MASK)),
        }
    }
}

/// Effect of a contribution on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contribution {
    /// It was the child's second one.
    Duplicate,
    /// It was aggregated; other children are awaited.
    Added,
    /// It was the last one: the slice is finished.
    Finished,
}

/// A slot of the server's window.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The slice that is awaited. All before it in this slot are finished: the floor of rule 6.
    pub(super) due: Seq,
    /// Children whose contribution to `due` is in `partial`.
    pub(super) children: u64,
    pub(super) partial: Sum,
    /// The slice one window before `due`, unless that is before the job's start.
    pub(super) finished: Option<Sum>,
    /// The members that the server has sent the finished slice to.
    pub(super) answers: Answers,
}

impl Slot {
    pub(super) fn new(due: Seq, job: JobId, width: SliceWidth) -> Self {
        Self {
            due,
            children: 0,
            partial: Sum::empty(job, width.values()),
            finished: None,
            answers: Answers::default(),
        }
    }

    /// Takes over the slice before `due` as a member got it.
    pub(super) fn take_over(&mut self, slice: &FinishedSlice) {
        let sum = self.finished.get_or_insert_with(|| self.partial.another());
        sum.job = slice.job;
        sum.store(slice.operator, slice.totals, slice.values());
    }

    /// Returns true if no part of the awaited slice has come yet.
    pub(super) fn is_empty(&self) -> bool {
        self.children == 0
    }

    /// The slice of this number, if it is the finished one.
    pub(super) fn finished_slice(&self, seq: Seq, window: u32) -> Option<&Sum> {
        self.finished.as_ref().filter(|_| seq.plus(window) == self.due)
    }

    /// Adds a contribution to the awaited slice, as a switch does.
    pub(super) fn contribute(
        &mut self,
        header: &Header,
        values: ValuesView<'_>,
        child: u8,
        fan_in: u8,
        window: u32,
    ) -> Contribution {
        let bit = 1 << child;
        if self.children & bit != 0 {
            return Contribution::Duplicate;
        }
        if self.is_empty() {
            self.partial.store(header.operator, header.totals, values);
        } else {
            self.partial.add(header, values);
        }
        self.children |= bit;
        if self.children.count_ones() < u32::from(fan_in) {
            return Contribution::Added;
        }
        self.children = 0;
        let spare = self.finished.take().unwrap_or_else(|| self.partial.another());
        let spare = Sum { job: self.partial.job, ..spare };
        self.finished = Some(std::mem::replace(&mut self.partial, spare));
        self.due = self.due.plus(window);
        Contribution::Finished
    }

    /// Discards the parts of the awaited slice, and the record of receivers of the finished slice.
    /// Both belong to another generation, whose results the members do not accept any more.
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
    /// Ranks that asked since, and when they were answered.
    to_one: Vec<(Rank, Time)>,
    /// True if a member has sent a retransmit request.
    asked: bool,
}

/// Answer to a retransmit request for a finished slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// An answer is on its way to this rank.
    Wait,
    /// Only this rank has asked lately.
    One,
    /// Others have asked as well: send to all.
    All,
}

impl Answers {
    /// The slice goes out to everyone.
    pub(super) fn sent_to_all(&mut self, now: Time) {
        self.to_all = Some(now);
        self.to_one.clear();
    }

    /// When it went to everyone, if that was enough for everyone.
    pub(super) fn only_sent(&self) -> Option<Time> {
        self.to_all.filter(|_| !self.asked)
    }

    /// Decides whether to answer a request of `rank`, and records the decision. What was sent less than
    /// `on_its_way` ago may have crossed the request.
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

pub(super) fn index_of(slots: &[Slot], seq: Seq) -> usize {
    seq.0 as usize & slots.len().wrapping_sub(1)
}
