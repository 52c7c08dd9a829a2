//! One operation under way: its slices, the agreed bounds, and the results that have arrived.

mod event;
mod layout;
mod queue;
mod rest;
mod state;
mod verify;

use std::collections::TryReserveError;

use tributary_wire::values::read;
use tributary_wire::{Operator, Rank, Seq, SliceWidth, Totals, ValuesView};

use crate::error::{CollectiveError, Missing, StartError};
use crate::numbers::bound::Bound;
use crate::numbers::fixed_point::{MAX_TOTAL_WEIGHT, Scale, Total};
use crate::numbers::lanes::{Lanes, not_finite_lane, withheld_lane, withholder};
use crate::numbers::{Elements, GradientData, NotFinite, OwnedPart, Part, Reduced, Run, Tensor, filled};
use crate::stripe::Stripe;
use crate::tags::{Agreed, Meaning, Membership, Subject, SubjectDigests, name_hash};
pub use event::{OperationEvent, OperationId};
use layout::Layout;
pub(crate) use layout::SliceRole;
pub(crate) use queue::Operations;
use rest::Rest;

/// The agreement about the SUM slices whose bounds one MAX slice carries.
#[derive(Debug, Clone, Copy, Hash)]
enum Agreement {
    /// The MAX slice has no result yet.
    Awaited,
    /// The MAX slice has a result: the bounds of the SUM slices, and the sums of weights and contributors.
    Reached(Total),
    /// The MAX slice's result is wrong, and a repetition did not fix it.
    GivenUp,
}

/// The reason for which a result failed verification, and the number of contributors that it should
/// have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) reason: &'static str,
    pub(crate) contributors: u32,
}

impl Tensor {
    /// Returns the bytes that each further [part](crate::JointAllReduce) of a contribution takes.
    pub fn memory_of_part(&self) -> u64 {
        Elements::memory(self.element_type, self.len)
    }

    /// Returns the maximum number of bytes that an all-reduce of this tensor takes, with slices of this
    /// width and a contribution of one part.
    /// This includes the contributed elements, and covers the time from its start until the caller takes the result.
    pub fn memory(&self, width: SliceWidth) -> u64 {
        let layout = Layout::new(0, (self.len, self.element_type.elements_in_value()), width);
        // While the vector of runs grows, its old and new buffers together have up to three entries for each run.
        let per_sum_slice = size_of::<Totals>() + size_of::<Option<Rank>>() + 3 * size_of::<Run>();
        let per_block =
            size_of::<Bound>() + size_of::<BlockLanes>() + size_of::<Option<Scale>>() + Rest::BYTES_PER_BLOCK;
        // If the caller abandons the operation, each MAX slice needs one more bool: true if the slice is withheld.
        let per_max_slice = size_of::<u32>() + size_of::<Agreement>() + size_of::<bool>();
        let of = |count: usize, bytes: usize| (count as u64).saturating_mul(bytes as u64);
        let elements = Elements::memory(self.element_type, self.len);
        // Sums of first limbs, which wait for the rest.
        let held = of(self.len, size_of::<i32>());
        let slices =
            of(layout.sum_slices(), per_sum_slice).saturating_add(of(layout.max_slices(), per_max_slice));
        let blocks = of(layout.blocks(), per_block);
        elements.saturating_add(held).saturating_add(slices).saturating_add(blocks)
    }
}

/// The [lanes](Lanes) of a block as a MAX slice carries them.
type BlockLanes = [i32; Lanes::COUNT];

/// The memory that an all-reduce needs until its result is complete.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    /// The bounds of the contribution, if they were measured before.
    measured: Option<Vec<Bound>>,
    lanes: Vec<BlockLanes>,
    scales: Vec<Option<Scale>>,
    first_lanes: Vec<u32>,
    agreements: Vec<Agreement>,
    elements: Elements,
    totals: Vec<Totals>,
    owners: Vec<Option<Rank>>,
}

impl Buffers {
    /// Returns the memory of an operation without elements and slices.
    fn none() -> Self {
        Self {
            measured: None,
            lanes: Vec::new(),
            scales: Vec::new(),
            first_lanes: Vec::new(),
            agreements: Vec::new(),
            elements: Elements::contributed(
                Part { data: GradientData::I32(Vec::new()), factor: 0 },
                Vec::new(),
            ),
            totals: Vec::new(),
            owners: Vec::new(),
        }
    }

    /// Allocates the memory for an operation on this tensor. `elements` makes the memory for its elements.
    /// The bounds, if they are known, have their memory already.
    ///
    /// # Errors
    /// [`StartError::NoMemory`] if an allocation fails.
    fn take(
        tensor: &Tensor,
        layout: Layout,
        measured: Option<Vec<Bound>>,
        elements: impl FnOnce() -> Result<Elements, TryReserveError>,
    ) -> Result<Self, StartError> {
        // A broadcast has the same totals in all slices.
        let sum_slices = if tensor.collective.root().is_some() { 0 } else { layout.sum_slices() };
        let buffers = || {
            Ok::<_, TryReserveError>(Self {
                measured,
                lanes: filled(BlockLanes::default(), layout.blocks())?,
                scales: filled(None, layout.blocks())?,
                first_lanes: filled(0, layout.max_slices())?,
                agreements: filled(Agreement::Awaited, layout.max_slices())?,
                elements: elements()?,
                totals: filled(Totals::default(), sum_slices)?,
                owners: owners(tensor, layout)?,
            })
        };
        buffers().map_err(|_| StartError::NoMemory {
            tensor: tensor.name.clone(),
            bytes: tensor.memory(layout.width),
        })
    }
}

/// Returns the owner of each SUM slice of a reduce-scatter; nothing for other collectives.
fn owners(tensor: &Tensor, layout: Layout) -> Result<Vec<Option<Rank>>, TryReserveError> {
    let parts = tensor.collective.parts();
    let mut owners = filled(None, if parts.is_empty() { 0 } else { layout.sum_slices() })?;
    let mut end = 0;
    // Neighbouring parts of one member may share a slice.
    for parts in parts.chunk_by(|one, next| one.owner == next.owner) {
        let Some(OwnedPart { owner, .. }) = parts.first() else { continue };
        let first = end;
        end += parts.iter().map(|part| part.len).sum::<usize>();
        let width = layout.elements_in_slice();
        for slice in first.div_ceil(width)..end.div_ceil(width) {
            if layout.elements(slice).end <= end
                && let Some(to) = owners.get_mut(slice)
            {
                *to = Some(*owner);
            }
        }
    }
    Ok(owners)
}

/// An all-reduce or broadcast under way.
/// A failed operation still goes through its remaining slices, so that the windows of all members stay equal.
#[derive(Debug, Clone)]
pub(crate) struct Operation<C> {
    pub(crate) id: OperationId,
    pub(crate) layout: Layout,
    stripe: Stripe,
    first_seq: Seq,
    tensor: Tensor,
    /// The digests of the operation that tags cover.
    subject: SubjectDigests,
    /// The contribution of this member; `()` in a server, which only reads the sums.
    pub(crate) own: C,
    /// This member's rank; `None` in a server.
    member: Option<Rank>,
    /// The minimum of the sum of the members' weights: the weight of this member's contribution.
    least_weight: u32,
    /// The bounds of this member's contribution, if they were known at the start.
    measured: Option<Vec<Bound>>,
    /// The lanes of each block.
    /// Once the block's MAX slice is sent, they are the lanes of this member's contribution.
    /// Once that slice has a result, they are the agreed lanes.
    lanes: Vec<BlockLanes>,
    /// The first lane of each MAX slice: this member's lane, and later the agreed lane.
    first_lanes: Vec<u32>,
    /// The scale of each block; `None` if all of its values are zeros, or if its bounds are not agreed on.
    scales: Vec<Option<Scale>>,
    /// The agreement of each MAX slice.
    agreements: Vec<Agreement>,
    pub(crate) elements: Elements,
    /// The totals of each SUM slice that has a result.
    totals: Vec<Totals>,
    /// The owner of each SUM slice of a reduce-scatter; `None` if all members receive it.
    /// Empty for other collectives.
    owners: Vec<Option<Rank>>,
    unfinished: usize,
    /// The number of MAX slices without a result.
    unsettled: usize,
    rest: Rest,
    /// The first element that is not finite, and the rank of a member that contributed it.
    found_not_finite: Option<NotFinite>,
    /// The first element whose sum does not fit into its type.
    overflow: Option<usize>,
    /// True if the operation has failed, so that its slices cannot be verified any more.
    failed: bool,
    /// True if the operation has no outcome on any member.
    /// A member withholds its contribution, or the root of the broadcast has left.
    is_void: bool,
    /// True if the caller has received an error, so that it will get no further event.
    pub(crate) told: bool,
}

impl<C> Operation<C> {
    /// Creates an operation without a contribution; [`contributes`](Self::contributes) adds the
    /// contribution.
    fn new(
        id: OperationId,
        (layout, stripe, first_seq): (Layout, Stripe, Seq),
        members: &Membership,
        tensor: Tensor,
        own: C,
        buffers: Buffers,
    ) -> Self {
        let Buffers { measured, lanes, scales, first_lanes, agreements, elements, totals, owners } = buffers;
        let subject = members.digests(Subject {
            operation: id.0,
            first: first_seq,
            name: name_hash(&tensor.name, &tensor.collective),
            len: tensor.len as u64,
            element_type: tensor.element_type as u8,
            root: tensor.collective.root(),
        });
        Self {
            id,
            layout,
            stripe,
            first_seq,
            tensor,
            subject,
            own,
            member: None,
            least_weight: 0,
            measured,
            lanes,
            first_lanes,
            scales,
            agreements,
            elements,
            totals,
            owners,
            unfinished: layout.max_slices() + layout.sum_slices(),
            unsettled: layout.max_slices(),
            rest: Rest::default(),
            found_not_finite: None,
            overflow: None,
            failed: false,
            is_void: false,
            told: false,
        }
    }

    /// Records that `member` contributes to the operation, with a weight of at least `weight` in every
    /// slice.
    pub(crate) fn contributes(&mut self, member: Rank, weight: u32) {
        self.member = Some(member);
        self.least_weight = weight;
    }

    /// Sets the minimum weight of this member's contribution.
    pub(crate) fn least_weight_is(&mut self, weight: u32) {
        self.least_weight = weight;
    }

    /// Computes the lanes of MAX slice `index` for the contribution of the member `rank`.
    /// `weight` must not be 0, and the MAX slice must not have a result yet.
    pub(crate) fn measure(&mut self, index: usize, rank: Rank, weight: u32) {
        let (blocks, width) = (self.layout.blocks_bounded_in(index), self.layout.width);
        let mut own = Vec::new();
        let own = match &self.measured {
            Some(measured) => measured.get(blocks.clone()).unwrap_or_default(),
            None => {
                own.resize(blocks.len(), Bound::default());
                let elements = self.layout.elements_of(self.layout.slices_bounded_in(index));
                self.elements.write_bounds(elements, weight, width, &mut own);
                own.as_slice()
            }
        };
        let (lanes, element_type) =
            (self.lanes.get_mut(blocks).unwrap_or_default(), self.tensor.element_type);
        lanes
            .iter_mut()
            .zip(own)
            .for_each(|(to, bound)| *to = bound.lanes(element_type, rank, weight).values());
        if let Some(lane) = self.first_lanes.get_mut(index) {
            let has_any = own.iter().any(|bound| bound.has_not_finite());
            *lane = if has_any { not_finite_lane(rank) } else { 0 };
        }
    }

    /// Sets the lanes of MAX slice `index` to zeros, because this member has no weight there.
    /// If it withholds its contribution, `withholder` is its rank, which the other members then receive.
    /// The MAX slice must not have a result yet.
    pub(crate) fn leave_out(&mut self, index: usize, withholder: Option<Rank>) {
        let blocks = self.layout.blocks_bounded_in(index);
        self.lanes.get_mut(blocks).unwrap_or_default().fill(BlockLanes::default());
        let first = withholder.map_or(0, withheld_lane);
        self.first_lanes.get_mut(index).into_iter().for_each(|lane| *lane = first);
    }

    /// Returns true if every slice has a result.
    fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Returns true if the content of the slice at `position` is known already.
    pub(crate) fn is_known(&self, position: u64) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => true,
            SliceRole::Sum(slice) | SliceRole::Relay(slice) => {
                !matches!(self.agreement(slice), Agreement::Awaited)
            }
            SliceRole::Rest(_) => position < self.layout.known_end(),
        }
    }

    fn agreement(&self, slice: usize) -> Agreement {
        self.agreements.get(self.layout.bound_of(slice)).copied().unwrap_or(Agreement::Awaited)
    }

    /// Returns the first lane of MAX slice `index`, and the lanes of the blocks that it bounds.
    pub(crate) fn lanes_in(&self, index: usize) -> (u32, &[BlockLanes]) {
        let first = self.first_lanes.get(index).copied().unwrap_or_default();
        (first, self.lanes.get(self.layout.blocks_bounded_in(index)).unwrap_or_default())
    }

    /// Returns the first lane of the MAX slice that bounds a SUM slice.
    fn first_lane(&self, slice: usize) -> u32 {
        self.first_lanes.get(self.layout.bound_of(slice)).copied().unwrap_or_default()
    }

    /// Returns true if elements of this SUM slice may be NaN or infinite. Its bounds must be agreed on.
    pub(crate) fn may_have_not_finite(&self, slice: usize) -> bool {
        self.first_lane(slice) != 0
    }

    /// Returns the values that determine the scales of a SUM slice.
    pub(crate) fn agreed(&self, slice: usize) -> Option<Agreed<'_>> {
        let Agreement::Reached(Total { weight, .. }) = self.agreement(slice) else { return None };
        let lanes = self.lanes.get(self.layout.blocks_of(slice..slice + 1))?;
        Some(Agreed { lanes: lanes.as_flattened(), first_lane: self.first_lane(slice), weight })
    }

    /// Returns the agreed lanes of the SUM slice at `position`, which the owners of the bounds confirm by
    /// their tags.
    pub(crate) fn confirmed_in(&self, position: u64) -> &[i32] {
        match self.layout.part(position) {
            SliceRole::Sum(slice) => self.agreed(slice).map(|agreed| agreed.lanes).unwrap_or_default(),
            SliceRole::Max(_) | SliceRole::Relay(_) | SliceRole::Rest(_) => &[],
        }
    }

    /// Returns the member that sends the slice at `position` to all `members`; `None` if all contribute.
    /// They also contribute to the relayed slices of a root that has left, with zeros, so that their windows move on.
    pub(crate) fn relayed_by(&self, position: u64, members: &Membership) -> Option<Rank> {
        let root = self.tensor.collective.root().filter(|root| members.contains(*root))?;
        matches!(self.layout.part(position), SliceRole::Relay(_)).then_some(root)
    }

    /// Returns the scale of a block; `None` if all of its values are zeros, or if its bounds are not agreed
    /// on.
    fn scale(&self, block: usize) -> Option<Scale> {
        self.scales.get(block).copied().flatten()
    }

    /// Returns the scales of the blocks of a SUM slice.
    pub(crate) fn scales(&self, slice: usize) -> &[Option<Scale>] {
        self.scales.get(self.layout.blocks_of(slice..slice + 1)).unwrap_or_default()
    }

    /// Returns the member that receives the sums of the slice at `position`; `None` if all `members` do.
    pub(crate) fn owner(&self, position: u64, members: &Membership) -> Option<Rank> {
        let SliceRole::Sum(slice) = self.layout.part(position) else { return None };
        self.owners.get(slice).copied().flatten().filter(|owner| members.contains(*owner))
    }

    /// Returns the operator with which `members` combine the slice.
    pub(crate) fn operator(&self, position: u64, members: &Membership) -> Operator {
        match self.layout.part(position) {
            SliceRole::Max(_) => Operator::Max,
            SliceRole::Relay(_) if self.relayed_by(position, members).is_some() => Operator::Relay,
            SliceRole::Sum(_) | SliceRole::Relay(_) | SliceRole::Rest(_) => Operator::Sum,
        }
    }

    /// Returns the identity of the slice at `position`, which the tags of `members` cover.
    pub(crate) fn meaning(&self, position: u64, members: &Membership) -> Meaning {
        let agreed = match self.layout.part(position) {
            SliceRole::Max(_) | SliceRole::Relay(_) | SliceRole::Rest(_) => None,
            SliceRole::Sum(slice) => self.agreed(slice),
        };
        Meaning {
            subject: self.subject,
            operator: self.operator(position, members),
            seq: self.seq(position),
            scale: agreed.map_or(0, |agreed| members.digest(&agreed)),
        }
    }

    fn seq(&self, position: u64) -> Seq {
        self.stripe.after(self.first_seq, position - self.layout.first)
    }

    /// Accepts a verified result.
    ///
    /// # Errors
    /// [`CollectiveError::Withheld`], [`CollectiveError::Weight`] or [`CollectiveError::RootLeft`] if the operation has no
    /// outcome, and the caller has received no error.
    pub(crate) fn accept(
        &mut self,
        position: u64,
        (operator, totals): (Operator, Totals),
        values: ValuesView<'_>,
    ) -> Result<(), CollectiveError> {
        self.unfinished -= 1;
        match self.layout.part(position) {
            SliceRole::Max(index) => {
                let agreed = self.agree(index, totals, values);
                match &agreed {
                    // Results are verified nevertheless, so that all members lay out the same rest slices.
                    Err(CollectiveError::Withheld { .. }) => self.is_void = true,
                    agreed => self.failed |= agreed.is_err(),
                }
                if agreed.is_err() && self.tell() { agreed } else { Ok(()) }
            }
            SliceRole::Sum(slice) => {
                if self.agreed(slice).is_some() {
                    self.accept_sums(slice, values);
                }
                self.note_totals(slice, totals);
                Ok(())
            }
            SliceRole::Relay(slice) if operator == Operator::Relay => {
                self.elements.finish_words(self.layout.elements(slice), values);
                Ok(())
            }
            // The members finished the slice without the root.
            SliceRole::Relay(_) => {
                self.is_void = true;
                let left = |root| CollectiveError::RootLeft { tensor: self.tensor.name.clone(), root };
                let error = self.tensor.collective.root().map(left);
                error.filter(|_| self.tell()).map_or(Ok(()), Err)
            }
            SliceRole::Rest(index) => {
                self.accept_rest(index, totals.contributors, values);
                Ok(())
            }
        }
    }

    /// Accepts the acknowledgement of a slice whose sums another member receives.
    pub(crate) fn acknowledge(&mut self, position: u64, totals: Totals) {
        self.unfinished -= 1;
        if let SliceRole::Sum(slice) = self.layout.part(position) {
            self.note_totals(slice, totals);
            self.leave_out_rest(self.layout.blocks_of(slice..slice + 1));
        }
    }

    /// Records that this member's sums of a slice were lost with the server.
    /// Returns the error, unless the caller has received one before.
    pub(crate) fn lose(&mut self, position: u64) -> Option<CollectiveError> {
        self.unfinished -= 1;
        self.is_void = true;
        let (tensor, seq) = (self.tensor.name.clone(), self.seq(position));
        self.tell().then_some(CollectiveError::Lost { tensor, seq })
    }

    fn note_totals(&mut self, slice: usize, totals: Totals) {
        if let Some(done) = self.totals.get_mut(slice) {
            *done = Totals { contributors: totals.count(), ..totals };
        }
    }

    /// Stores the bounds of a MAX result.
    /// All members do this even if the operation fails, so that they continue alike.
    fn agree(&mut self, index: usize, totals: Totals, values: ValuesView<'_>) -> Result<(), CollectiveError> {
        let Totals { weight, contributors, .. } = totals;
        let blocks = self.layout.blocks_bounded_in(index);
        let total = Total { weight, contributors };
        let (to_lanes, to_scales) = (self.lanes.get_mut(blocks.clone()), self.scales.get_mut(blocks.clone()));
        let mut have_rest = false;
        if let (Some(lane), Some((first, bounds))) = (self.first_lanes.get_mut(index), values.split_first()) {
            *lane = first.cast_unsigned();
            have_rest = *lane != 0;
            let lanes = to_lanes.unwrap_or_default();
            read(bounds, lanes.as_flattened_mut());
            if weight <= MAX_TOTAL_WEIGHT {
                for (scale, lanes) in to_scales.unwrap_or_default().iter_mut().zip(lanes) {
                    *scale = Scale::new(self.tensor.element_type, Lanes::of_values(lanes), total);
                    have_rest |= scale.is_some_and(|scale| scale.limbs() > 1);
                }
            }
        }
        if have_rest {
            self.expect_rest(blocks);
        }
        self.settle(index, Agreement::Reached(total));
        if let Some(rank) = self.first_lanes.get(index).copied().and_then(withholder) {
            return Err(CollectiveError::Withheld { tensor: self.tensor.name.clone(), rank });
        }
        if weight > MAX_TOTAL_WEIGHT {
            return Err(CollectiveError::Weight {
                tensor: self.tensor.name.clone(),
                weight,
                most: MAX_TOTAL_WEIGHT,
            });
        }
        Ok(())
    }

    /// Records the agreement of MAX slice `index`.
    /// After the last MAX slice it lays out the rest slices, because their number depends on all agreements.
    fn settle(&mut self, index: usize, agreement: Agreement) {
        if let Some(to) = self.agreements.get_mut(index) {
            *to = agreement;
        }
        self.unsettled -= 1;
        if self.unsettled == 0 {
            self.lay_out_rest();
        }
    }

    /// Records that the caller receives an error. Returns true if this is its first error.
    fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// Abandons the operation on behalf of the caller.
    /// Returns the error, unless the caller has received one before.
    pub(crate) fn abandon(&mut self, first: u64, sent: u32) -> Option<CollectiveError> {
        let slices = (self.layout.known_end() - self.layout.first) as usize;
        let first = self.seq(first);
        let missing = Missing::Results { missing: self.unfinished, slices, first, sent };
        self.tell().then(|| CollectiveError::Abandoned { tensor: self.tensor.name.clone(), missing })
    }

    /// Returns true if the caller has abandoned the operation, and the operation has not failed.
    /// This includes every operation that the caller abandoned before all members had started it.
    pub(super) fn is_given_up(&self) -> bool {
        self.told && !self.failed && !self.is_void
    }

    /// Records that the result of a slice is permanently wrong.
    /// Returns the error, if the operation has not failed before.
    pub(crate) fn give_up(
        &mut self,
        position: u64,
        totals: Totals,
        mismatch: Mismatch,
    ) -> Option<CollectiveError> {
        self.unfinished -= 1;
        self.failed = true;
        if let SliceRole::Max(index) = self.layout.part(position) {
            self.settle(index, Agreement::GivenUp);
        }
        self.tell().then(|| CollectiveError::WrongSum {
            tensor: self.tensor.clone(),
            operation: self.first_seq,
            seq: self.seq(position),
            reason: mismatch.reason,
            contributors: mismatch.contributors,
            contributors_got: totals.count(),
        })
    }

    /// Returns the outcome of a finished operation; `None` if the caller has received an error before.
    fn into_outcome(self) -> Option<Result<Reduced, CollectiveError>> {
        let Some(&Agreement::Reached(Total { weight, contributors })) = self.agreements.first() else {
            return None;
        };
        if self.told {
            return None;
        }
        if let Some(element) = self.overflow {
            let Tensor { name: tensor, element_type, .. } = self.tensor;
            return Some(Err(CollectiveError::Overflow { tensor, element, element_type }));
        }
        let mut runs: Vec<Run> = Vec::new();
        if self.tensor.collective.root().is_some() || self.tensor.len == 0 {
            runs.push(Run { len: self.tensor.len, weight, contributors, complete: contributors });
        }
        for (slice, totals) in self.totals.iter().enumerate() {
            let Totals { weight, contributors, .. } = *totals;
            let complete = self.complete(slice, contributors);
            let run = Run { len: self.layout.elements(slice).len(), weight, contributors, complete };
            run.push_to(&mut runs);
        }
        let is_cut = runs.iter().any(|run| run.complete < run.contributors);
        if is_cut && self.tensor.element_type.float_exponents().is_none() {
            return Some(Err(CollectiveError::Incomplete { tensor: self.tensor.name }));
        }
        let (sums, not_finite) = (self.elements.into_sums(), self.found_not_finite);
        Some(Ok(Reduced { sums, weight, contributors, runs, not_finite }))
    }
}
