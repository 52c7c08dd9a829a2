//! What a process asks its agent to reduce, and what comes of it.

use std::ops::Range;
use std::time::Duration;

use tributary_api::agent::v1;

use crate::element::Element;
use crate::options::JoinOptions;
use crate::segment::Segment;

/// What is to be reduced, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The tensor: the same on all members, which have an error where it is not.
    pub name: &'a str,
    /// How the elements are stored.
    pub element_type: v1::ElementType,
    /// Which elements of the segment; `None`: all.
    pub elements: Option<Range<usize>>,
    /// What this member's contribution is multiplied by. 0: it has nothing to give.
    pub weight: u32,
    /// How long it may take until it fails; `None`: as the [`JoinOptions`](crate::JoinOptions) say, or as long as the job
    /// lives. Best the same on all members: one that gives up contributes nothing to what is left of the operation.
    pub deadline: Option<Duration>,
    /// Another all-reduce of the same step of training follows, whatever comes of this one. What a step takes is measured,
    /// and its samples are the weight of its last all-reduce: a job that does something about processes that get slow
    /// goes by that.
    pub step_goes_on: bool,
}

impl Operation<'_> {
    /// The sum of all elements of the segment.
    pub fn whole<T: Element>() -> Self {
        Self {
            name: "unnamed",
            element_type: T::TYPE,
            elements: None,
            weight: 1,
            deadline: None,
            step_goes_on: false,
        }
    }
}

impl Operation<'_> {
    /// As its agent is asked for it.
    pub(crate) fn request(
        &self,
        session: &[u8],
        segment: &Segment,
        defaults: &JoinOptions,
    ) -> v1::AllReduceRequest {
        let elements = self.elements_in(segment);
        v1::AllReduceRequest {
            session: session.to_vec(),
            segment: segment.id,
            offset: (elements.start as u64).saturating_mul(bytes_of(self.element_type) as u64),
            element_type: self.element_type.into(),
            count: elements.len() as u64,
            weight: self.weight,
            name: self.name.into(),
            deadline_milliseconds: self.deadline.or(defaults.deadline).map_or(0, milliseconds),
            regroup_generation: 0,
            step_goes_on: self.step_goes_on,
        }
    }

    fn elements_in(&self, segment: &Segment) -> Range<usize> {
        let all = 0..segment.len() / bytes_of(self.element_type);
        self.elements.clone().unwrap_or(all)
    }

    /// Where its elements are.
    pub(crate) fn bytes_in(&self, segment: &Segment) -> Range<usize> {
        let (Range { start, end }, size) = (self.elements_in(segment), bytes_of(self.element_type));
        start.saturating_mul(size)..end.saturating_mul(size)
    }
}

/// Neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many elements.
    pub elements: u64,
    /// Sum of the weights inside.
    pub weight: u32,
    /// Members inside.
    pub contributors: u32,
}

impl From<v1::Run> for Run {
    fn from(v1::Run { elements, weight, contributors }: v1::Run) -> Self {
        Self { elements, weight, contributors }
    }
}

/// What an all-reduce has given; the sums are in the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// What they are over: neighbouring elements, without gaps.
    pub runs: Vec<Run>,
    /// From when the agent had the request until it had the answer.
    pub in_agent: Duration,
}

/// At least one: 0 stands for no deadline.
pub(crate) fn milliseconds(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn bytes_of(element_type: v1::ElementType) -> usize {
    match element_type {
        v1::ElementType::F16 | v1::ElementType::Bf16 => 2,
        v1::ElementType::F32 | v1::ElementType::I32 | v1::ElementType::Unspecified => 4,
    }
}
