//! All-reduce operations and their results.

use std::ops::Range;
use std::time::Duration;

use tributary_api::agent::v1;

use crate::element::Element;
use crate::options::JoinOptions;
use crate::segment::Segment;

/// An all-reduce, reduce-scatter or broadcast to run on a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The tensor's name. It must be the same on all members; otherwise all members get an error.
    pub name: &'a str,
    /// The type in which the elements are stored.
    pub element_type: v1::ElementType,
    /// The range of elements in the segment; `None` for all elements.
    pub elements: Option<Range<usize>>,
    /// The factor of this member's contribution. With 0, the member contributes nothing.
    pub weight: u32,
    /// Time after which the operation fails. `None` means the deadline of the
    /// [`JoinOptions`](crate::JoinOptions), or no deadline if they have none. It should be the same on all members,
    /// because a member that abandons an operation contributes nothing to the rest of it.
    pub deadline: Option<Duration>,
    /// The rank whose elements all ranks receive, in a broadcast; `None` in an all-reduce.
    /// A broadcast has the element type [`I32`](v1::ElementType::I32), and all bits of the elements arrive unchanged. Its
    /// weight does not count.
    pub root: Option<u32>,
    /// The parts of a reduce-scatter in order: numbers of elements, and the ranks that own their sums.
    /// Together they have all elements. Other elements than a rank's own are undefined afterwards. Empty in other
    /// operations.
    pub parts: &'a [(u64, u32)],
    /// True if another all-reduce of the same training step follows, even if this all-reduce fails. A job
    /// that reacts to slow processes measures the time of each step. It takes the weight of the step's last all-reduce
    /// as the number of samples.
    pub step_goes_on: bool,
}

impl Operation<'_> {
    /// Returns an operation on all elements of the segment.
    pub fn whole<T: Element>() -> Self {
        Self {
            name: "unnamed",
            element_type: T::TYPE,
            elements: None,
            weight: 1,
            deadline: None,
            root: None,
            parts: &[],
            step_goes_on: false,
        }
    }
}

impl<'a> Operation<'a> {
    /// Returns a broadcast of all elements of the segment from the rank `root`.
    /// The segment's length must be a multiple of 4 bytes.
    pub fn broadcast(name: &'a str, root: u32) -> Self {
        Self { name, root: Some(root), ..Self::whole::<i32>() }
    }
}

impl Operation<'_> {
    /// Returns the request for the agent.
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
            weight: if self.root.is_some() { 0 } else { self.weight },
            name: self.name.into(),
            deadline_milliseconds: self.deadline.or(defaults.deadline).map_or(0, milliseconds),
            regroup_generation: 0,
            step_goes_on: self.step_goes_on,
            broadcast_root: self.root,
            parts: self.parts.iter().map(|&(count, owner)| v1::OwnedPart { count, owner }).collect(),
        }
    }

    fn elements_in(&self, segment: &Segment) -> Range<usize> {
        let all = 0..segment.len() / bytes_of(self.element_type);
        self.elements.clone().unwrap_or(all)
    }
}

/// A run of neighbouring elements whose sums contain the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of elements.
    pub elements: u64,
    /// The sum of the weights.
    pub weight: u32,
    /// The number of members whose contributions the sums contain with full precision.
    /// If members left during the operation, `weight` can contain more members.
    pub contributors: u32,
}

impl From<v1::Run> for Run {
    fn from(v1::Run { elements, weight, contributors }: v1::Run) -> Self {
        Self { elements, weight, contributors }
    }
}

/// A contribution that is NaN or infinite. The sum of its element follows IEEE 754.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite {
    /// The first element with such a contribution.
    pub element: u64,
    /// The rank of the first process of a host with such a contribution to the element. If there are
    /// several such hosts, it is the last of them.
    pub rank: u32,
    /// The number of processes of the host. One of them contributed the value.
    pub processes: u32,
}

/// The result of an all-reduce; the sums are in the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    /// The runs of neighbouring elements that the sums cover, without gaps.
    pub runs: Vec<Run>,
    /// The first NaN or infinite contribution; `None` if all contributions are finite.
    pub not_finite: Option<NotFinite>,
    /// The time from the request's arrival at the agent to the agent's answer.
    pub in_agent: Duration,
}

/// Returns the milliseconds for a request. They are at least 1, because 0 means no deadline.
pub(crate) fn milliseconds(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn bytes_of(element_type: v1::ElementType) -> usize {
    match element_type {
        v1::ElementType::F16
        | v1::ElementType::Bf16
        | v1::ElementType::F16Exact
        | v1::ElementType::Bf16Exact => 2,
        v1::ElementType::F64 | v1::ElementType::I64 => 8,
        v1::ElementType::F32
        | v1::ElementType::F32Exact
        | v1::ElementType::I32
        | v1::ElementType::Unspecified => 4,
    }
}
