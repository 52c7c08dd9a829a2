//! All-reduce operations and their results.

use std::ops::Range;
use std::time::Duration;

use tributary_api::agent::v1;

use crate::element::Element;
use crate::options::JoinOptions;
use crate::segment::Segment;

/// An operation to be carried out on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The tensor's name, which must be the same on all members; otherwise all of them get an error.
    pub name: &'a str,
    /// The type in which the elements are stored.
    pub element_type: v1::ElementType,
    /// The elements in the segment; `None`: all.
    pub elements: Option<Range<usize>>,
    /// The factor of this member's contribution. 0: it contributes nothing.
    pub weight: u32,
    /// Time after which it fails; `None`: as long as the [`JoinOptions`](crate::JoinOptions) say, or as the
    /// job lives. It should be the same on all members: one that gives up contributes nothing to the rest of the
    /// operation.
    pub deadline: Option<Duration>,
    /// True if another all-reduce of the same training step follows, even if this one fails.
    /// A job that reacts to slow processes measures the time of each step, and takes the weight of its last all-reduce
    /// as the number of its samples.
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
    /// The request to the agent.
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

    /// The range of its elements in bytes.
    pub(crate) fn bytes_in(&self, segment: &Segment) -> Range<usize> {
        let (Range { start, end }, size) = (self.elements_in(segment), bytes_of(self.element_type));
        start.saturating_mul(size)..end.saturating_mul(size)
    }
}

/// Neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of elements.
    pub elements: u64,
    /// The sum of the weights.
    pub weight: u32,
    /// The number of members whose contributions are included.
    pub contributors: u32,
}

impl From<v1::Run> for Run {
    fn from(v1::Run { elements, weight, contributors }: v1::Run) -> Self {
        Self { elements, weight, contributors }
    }
}

/// A contribution that is NaN or infinite. The sum of its element is what IEEE 754 makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite {
    /// The first element for which some member has one.
    pub element: u64,
    /// The member that contributes such an element; of several members, the member with the highest rank.
    pub rank: u32,
}

/// The result of an all-reduce; the sums are in the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// The runs of neighbouring elements that the sums cover, without gaps.
    pub runs: Vec<Run>,
    /// Where some member has contributed NaN or infinity.
    pub not_finite: Option<NotFinite>,
    /// The time from when the agent got the request until it had the answer.
    pub in_agent: Duration,
}

/// At least 1: 0 stands for no deadline.
pub(crate) fn milliseconds(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn bytes_of(element_type: v1::ElementType) -> usize {
    match element_type {
        v1::ElementType::F16 | v1::ElementType::Bf16 => 2,
        v1::ElementType::F64 | v1::ElementType::I64 => 8,
        v1::ElementType::F32
        | v1::ElementType::F32Exact
        | v1::ElementType::I32
        | v1::ElementType::Unspecified => 4,
    }
}
