//! One all-reduce under way: its slices, what was agreed about them, and what is done.

mod event;
mod layout;
mod queue;
mod state;
mod verify;

use std::collections::TryReserveError;
use std::ops::Range;

use tributary_wire::{Operator, Rank, Seq, SliceWidth, Tally, ValuesView};

use crate::error::{CollectiveError, Missing, StartError};
use crate::numbers::fixed_point::MAX_TOTAL_WEIGHT;
use crate::numbers::{Elements, Reduced, Run, Scaling, SumError, Tensor, filled};
use crate::tags::{Meaning, Membership, Subject, SubjectDigests, name_hash};
pub use event::{OperationEvent, OperationId};
use layout::Layout;
pub(crate) use layout::SliceRole;
pub(crate) use queue::Operations;

/// What is known about the SUM slices whose bounds one MAX slice carries.
#[derive(Debug, Clone, Copy, Hash)]
enum Agreement {
    /// The MAX slice has no result yet.
    Awaited,
    /// The MAX slice has a result: the bounds of the SUM slices, and these.
    Reached { weight: u32, contributors: u32 },
    /// The MAX slice's result is wrong for good.
    GivenUp,
}

/// A result that cannot be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    reason: &'static str,
    contributors: u32,
}

impl Tensor {
    /// How many bytes an all-reduce of it in slices of this width takes at most, from its start until its result is taken
    /// away: the elements that are contributed, and all that comes with them.
    pub fn memory(&self, width: SliceWidth) -> u64 {
        let layout = Layout { first: 0, len: self.len, width };
        // Runs are there thrice while their vector grows.
        let per_sum_slice = size_of::<u32>() + size_of::<bool>() + size_of::<Tally>() + 3 * size_of::<Run>();
        let slices = (layout.sum_slices() as u64).saturating_mul(per_sum_slice as u64);
        // What is withheld of an operation that is given up is a bool for each.
        let per_max_slice = size_of::<Agreement>() + size_of::<bool>();
        let agreements = (layout.max_slices() as u64).saturating_mul(per_max_slice as u64);
        let elements = Elements::memory(self.len);
        elements.saturating_add(slices).saturating_add(agreements)
    }
}

/// The memory that an all-reduce needs until its result is there.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    bounds: Vec<u32>,
    /// Whether the bounds are known.
    is_measured: bool,
    owned: Vec<bool>,
    agreements: Vec<Agreement>,
    elements: Elements,
    tallies: Vec<Tally>,
}

impl Room {
    /// Takes the memory for an operation on this tensor, beside that of the bounds that are known; `elements` makes that of
    /// its elements.
    ///
    /// # Errors
    /// [`StartError::NoMemory`]: the system does not give it.
    fn take(
        tensor: &Tensor,
        width: SliceWidth,
        bounds: Option<Vec<u32>>,
        elements: impl FnOnce() -> Result<Elements, TryReserveError>,
    ) -> Result<Self, StartError> {
        let layout = Layout { first: 0, len: tensor.len, width };
        let room = || {
            Ok::<_, TryReserveError>(Self {
                is_measured: bounds.is_some(),
                bounds: bounds.map_or_else(|| filled(0, layout.sum_slices()), Ok)?,
                owned: filled(false, layout.sum_slices())?,
                agreements: filled(Agreement::Awaited, layout.max_slices())?,
                elements: elements()?,
                tallies: filled(Tally::default(), layout.sum_slices())?,
            })
        };
        room().map_err(|_| StartError::NoMemory { tensor: tensor.name.clone(), bytes: tensor.memory(width) })
    }
}

/// An all-reduce under way. One that has failed goes through the rest of its slices all the same, so that
/// the members' windows stay together.
#[derive(Debug, Clone)]
pub(crate) struct Operation<C> {
    pub(crate) id: OperationId,
    pub(crate) layout: Layout,
    first_seq: Seq,
    tensor: Tensor,
    /// What tags need to know of it.
    subject: SubjectDigests,
    /// What is contributed here; `()` where sums are only read.
    pub(crate) own: C,
    /// What the members' weights add up to at least: the weight of what is contributed here.
    least_weight: u32,
    /// Per SUM slice: the bound of what is contributed here, from when its MAX slice is sent at the latest until that one's
    /// result replaces it by the largest.
    bounds: Vec<u32>,
    /// Whether the bounds of what is contributed here were known at the start.
    is_measured: bool,
    /// Per SUM slice: whether the largest bound is that of what is contributed here.
    owned: Vec<bool>,
    /// Per MAX slice.
    agreements: Vec<Agreement>,
    pub(crate) elements: Elements,
    /// Per SUM slice that is done.
    tallies: Vec<Tally>,
    unfinished: usize,
    /// Its slices cannot be verified any more.
    failed: bool,
    /// Its caller has had an error: there is no more to tell.
    pub(crate) told: bool,
}

impl<C> Operation<C> {
    /// An operation to which nothing is contributed here, unless [`contributes`](Self::contributes) says so.
    fn new(
        id: OperationId,
        (layout, first_seq): (Layout, Seq),
        members: &Membership,
        tensor: Tensor,
        own: C,
        room: Room,
    ) -> Self {
        let Room { bounds, is_measured, owned, agreements, elements, tallies } = room;
        let subject = members.digests(Subject {
            operation: first_seq,
            name: name_hash(&tensor.name),
            len: tensor.len as u64,
            element_type: tensor.element_type as u8,
        });
        Self {
            id,
            layout,
            first_seq,
            tensor,
            subject,
            own,
            least_weight: 0,
            bounds,
            is_measured,
            owned,
            agreements,
            elements,
            tallies,
            unfinished: layout.max_slices() + layout.sum_slices(),
            failed: false,
            told: false,
        }
    }

    /// What is contributed here has this weight at least, in every slice.
    pub(crate) fn contributes(&mut self, weight: u32) {
        self.least_weight = weight;
    }

    /// Works out the bounds that MAX slice `index` carries of what this rank contributes here, unless they are known. None
    /// of the SUM slices that they are of is done, nor is anything agreed about them.
    pub(crate) fn measure(&mut self, index: usize, rank: Rank) {
        if self.is_measured {
            return;
        }
        let (slices, width) = (self.layout.bounds_in(index), self.layout.width);
        let elements = self.layout.elements_of(slices.clone());
        let bounds = self.bounds.get_mut(slices).unwrap_or_default();
        self.elements.write_bounds(elements, rank, width, bounds);
    }

    /// Leaves out what is contributed here to the SUM slices whose bounds MAX slice `index` carries, which has no result.
    pub(crate) fn leave_out(&mut self, index: usize) {
        let slices = self.layout.bounds_in(index);
        self.bounds.get_mut(slices).unwrap_or_default().fill(0);
    }

    /// Whether no slice is left to wait for.
    fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Whether what the slice carries is known already.
    pub(crate) fn is_known(&self, position: u64) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => true,
            SliceRole::Sum(slice) => !matches!(self.agreement(slice), Agreement::Awaited),
        }
    }

    fn agreement(&self, slice: usize) -> Agreement {
        self.agreements.get(self.layout.bound_of(slice)).copied().unwrap_or(Agreement::Awaited)
    }

    /// The bounds that MAX slice `index` carries.
    pub(crate) fn bounds_in(&self, index: usize) -> &[u32] {
        self.bounds.get(self.layout.bounds_in(index)).unwrap_or_default()
    }

    /// The total weight and the bound that a SUM slice's scale follows from.
    pub(crate) fn agreed(&self, slice: usize) -> Option<(u32, u32)> {
        match (self.agreement(slice), self.bounds.get(slice)) {
            (Agreement::Reached { weight, .. }, Some(&bound)) => Some((bound, weight)),
            _ => None,
        }
    }

    /// Whether the bound that a SUM slice's scale follows from is that of what is contributed here.
    pub(crate) fn owns(&self, position: u64) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => false,
            SliceRole::Sum(slice) => self.owned.get(slice).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn scaling(&self, slice: usize) -> Option<Scaling> {
        let (bound, weight) = self.agreed(slice)?;
        self.tensor.element_type.scaling(bound, weight).ok()
    }

    /// How the slice is combined.
    pub(crate) fn operator(&self, position: u64) -> Operator {
        match self.layout.part(position) {
            SliceRole::Max(_) => Operator::Max,
            SliceRole::Sum(_) => Operator::Sum,
        }
    }

    pub(crate) fn meaning(&self, position: u64) -> Meaning {
        let scale = match self.layout.part(position) {
            SliceRole::Max(_) => (0, 0),
            SliceRole::Sum(slice) => self.agreed(slice).unwrap_or_default(),
        };
        Meaning {
            subject: self.subject,
            operator: self.operator(position),
            seq: self.first_seq.plus((position - self.layout.first) as u32),
            scale,
        }
    }

    /// Takes in a verified result.
    ///
    /// # Errors
    /// What the members' bounds or weights make of the whole operation, once.
    pub(crate) fn accept(
        &mut self,
        position: u64,
        tally: Tally,
        values: ValuesView<'_>,
    ) -> Result<(), CollectiveError> {
        self.unfinished -= 1;
        match self.layout.part(position) {
            SliceRole::Max(index) => {
                let agreed = self.agree(index, tally, values);
                self.failed |= agreed.is_err();
                if agreed.is_err() && self.tell() { agreed } else { Ok(()) }
            }
            SliceRole::Sum(slice) => {
                if let Some(scaling) = self.scaling(slice) {
                    self.elements.finish(self.layout.elements(slice), scaling, values);
                }
                if let Some(done) = self.tallies.get_mut(slice) {
                    *done = tally;
                }
                Ok(())
            }
        }
    }

    /// Takes over the bounds of a MAX result, whatever they make of the operation: the members go on alike.
    fn agree(&mut self, index: usize, tally: Tally, values: ValuesView<'_>) -> Result<(), CollectiveError> {
        let Tally { weight, contributors, .. } = tally;
        let slices = self.layout.bounds_in(index);
        let largest = values.iter().map(i32::cast_unsigned);
        let bounds = self.bounds.get_mut(slices.clone()).unwrap_or_default();
        let owned = self.owned.get_mut(slices.clone()).unwrap_or_default();
        for ((bound, owned), largest) in bounds.iter_mut().zip(owned).zip(largest) {
            *owned = *bound == largest;
            *bound = largest;
        }
        if let Some(agreement) = self.agreements.get_mut(index) {
            *agreement = Agreement::Reached { weight, contributors };
        }
        if weight > MAX_TOTAL_WEIGHT {
            return Err(CollectiveError::Weight {
                tensor: self.tensor.name.clone(),
                weight,
                most: MAX_TOTAL_WEIGHT,
            });
        }
        for (slice, &largest) in slices.clone().zip(self.bounds.get(slices).unwrap_or_default()) {
            let scaling = self.tensor.element_type.scaling(largest, weight);
            scaling.map_err(|refusal| self.refused(slice, largest, weight, refusal))?;
        }
        Ok(())
    }

    fn refused(&self, slice: usize, largest: u32, weight: u32, refusal: SumError) -> CollectiveError {
        let (tensor, Range { start: first, end }) = (self.tensor.name.clone(), self.layout.elements(slice));
        match refusal {
            SumError::NotFinite(rank) => CollectiveError::NotFinite { tensor, rank, first, end },
            SumError::Overflow => CollectiveError::Overflow { tensor, first, end, largest, weight },
        }
    }

    /// Whether its caller has yet to be told of an error, which is done now.
    fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// Its caller does not wait any more; the error, unless it has had one.
    pub(crate) fn abandon(&mut self, first: u64, sent: u32) -> Option<CollectiveError> {
        let slices = self.layout.max_slices() + self.layout.sum_slices();
        let first = self.meaning(first).seq;
        let missing = Missing::Results { missing: self.unfinished, slices, first, sent };
        self.tell().then(|| CollectiveError::Abandoned { tensor: self.tensor.name.clone(), missing })
    }

    /// Whether its caller does not wait any more, and no member has made it fail: what was not started by all is among
    /// these.
    pub(super) fn is_given_up(&self) -> bool {
        self.told && !self.failed
    }

    /// Gives up a slice whose result is wrong for good; the error, if the operation has not failed before.
    pub(crate) fn give_up(
        &mut self,
        position: u64,
        tally: Tally,
        mismatch: Mismatch,
    ) -> Option<CollectiveError> {
        self.unfinished -= 1;
        if let SliceRole::Max(index) = self.layout.part(position)
            && let Some(agreement) = self.agreements.get_mut(index)
        {
            *agreement = Agreement::GivenUp;
        }
        self.failed = true;
        self.tell().then(|| CollectiveError::WrongSum {
            tensor: self.tensor.clone(),
            operation: self.first_seq,
            seq: self.meaning(position).seq,
            reason: mismatch.reason,
            contributors: mismatch.contributors,
            contributors_got: tally.contributors,
        })
    }

    /// The result of an operation that is finished; `None` if it failed.
    fn into_reduced(self) -> Option<Reduced> {
        let Some(&Agreement::Reached { weight, contributors }) = self.agreements.first() else { return None };
        if self.told {
            return None;
        }
        let mut runs: Vec<Run> = Vec::new();
        for (slice, tally) in self.tallies.iter().enumerate() {
            let len = self.layout.elements(slice).len();
            match runs.last_mut() {
                Some(run) if (run.weight, run.contributors) == (tally.weight, tally.contributors) => {
                    run.len += len;
                }
                _ => runs.push(Run { len, weight: tally.weight, contributors: tally.contributors }),
            }
        }
        Some(Reduced { sums: self.elements.into_sums(), weight, contributors, runs })
    }
}
