//! One all-reduce under way: its slices, what was agreed about them, and what is done.

use std::ops::Range;

use tributary_wire::constants::VALUES_PER_SLICE;
use tributary_wire::{Header, Operator, Rank, Seq, Tally, ValuesView};

use super::OperationId;
use crate::check::{Meaning, Membership};
use crate::error::CollectiveError;
use crate::numbers::fixed_point::MAX_TOTAL_WEIGHT;
use crate::numbers::{AllReduce, ElementType, GradientData, Reduced, Refusal, Run, Scaling, Sums};

/// What one slice of an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Carries the bounds of up to V SUM slices.
    Max(usize),
    /// Carries elements.
    Sum(usize),
}

/// What is known about the SUM slices whose bounds one MAX slice carries.
#[derive(Debug, Clone, Copy)]
enum Agreement {
    /// Its result is not there.
    Awaited,
    /// Its result: the bounds, and these.
    Reached { weight: u32, contributors: u32 },
    /// Its result is wrong for good.
    GivenUp,
}

/// A result that cannot be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    reason: &'static str,
    contributors: u32,
    check: u32,
}

/// An all-reduce under way: MAX slices first, then SUM slices, at consecutive positions. One that has failed
/// goes through the rest of its slices all the same, so that the members' windows stay together.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    /// Position of the first slice.
    pub(crate) first: u64,
    first_seq: Seq,
    name: String,
    data: GradientData,
    weight: u32,
    /// Per SUM slice: this member's bound, until the MAX result replaces it by the largest.
    bounds: Vec<u32>,
    /// Per MAX slice.
    agreements: Vec<Agreement>,
    sums: Sums,
    /// Per SUM slice that is done.
    tallies: Vec<Tally>,
    unfinished: usize,
    failed: bool,
}

impl Operation {
    pub(crate) fn new(id: OperationId, first: u64, first_seq: Seq, rank: Rank, request: AllReduce) -> Self {
        let AllReduce { name, data, weight } = request;
        let sum_slices = data.len().div_ceil(VALUES_PER_SLICE);
        let bounds = if weight == 0 { vec![0; sum_slices] } else { data.bounds(rank) };
        // Even no elements take one MAX slice: it makes the operation a barrier, and says the total weight.
        let max_slices = sum_slices.div_ceil(VALUES_PER_SLICE).max(1);
        Self {
            id,
            first,
            first_seq,
            name,
            sums: Sums::zeros(data.element_type(), data.len()),
            data,
            weight,
            bounds,
            agreements: vec![Agreement::Awaited; max_slices],
            tallies: vec![Tally::default(); sum_slices],
            unfinished: max_slices + sum_slices,
            failed: false,
        }
    }

    /// One past the position of the last slice.
    pub(crate) fn end(&self) -> u64 {
        self.first + (self.agreements.len() + self.tallies.len()) as u64
    }

    /// Positions of the MAX slices.
    pub(crate) fn max_slices(&self) -> Range<u64> {
        self.first..self.first + self.agreements.len() as u64
    }

    /// Whether no slice is left to wait for.
    pub(crate) fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    fn part(&self, position: u64) -> Part {
        let index = (position - self.first) as usize;
        index.checked_sub(self.agreements.len()).map_or(Part::Max(index), Part::Sum)
    }

    /// Whether what the slice carries is known already.
    pub(crate) fn is_known(&self, position: u64) -> bool {
        match self.part(position) {
            Part::Max(_) => true,
            Part::Sum(slice) => !matches!(self.agreement(slice), Agreement::Awaited),
        }
    }

    /// Positions of the SUM slices that the MAX slice at `position` makes known; none if it is a SUM slice.
    pub(crate) fn made_known_by(&self, position: u64) -> Range<u64> {
        let sums = self.first + self.agreements.len() as u64;
        match self.part(position) {
            Part::Max(index) => {
                let slices = bounds_in(index, self.bounds.len());
                sums + slices.start as u64..sums + slices.end as u64
            }
            Part::Sum(_) => 0..0,
        }
    }

    fn agreement(&self, slice: usize) -> Agreement {
        self.agreements.get(slice / VALUES_PER_SLICE).copied().unwrap_or(Agreement::Awaited)
    }

    /// The total weight and the bound that a SUM slice's scale follows from.
    fn agreed(&self, slice: usize) -> Option<(u32, u32)> {
        match (self.agreement(slice), self.bounds.get(slice)) {
            (Agreement::Reached { weight, .. }, Some(&bound)) => Some((bound, weight)),
            _ => None,
        }
    }

    fn elements(&self, slice: usize) -> Range<usize> {
        let first = slice * VALUES_PER_SLICE;
        first..(first + VALUES_PER_SLICE).min(self.data.len())
    }

    fn element_type(&self) -> ElementType {
        self.data.element_type()
    }

    fn scaling(&self, slice: usize) -> Option<Scaling> {
        let (bound, weight) = self.agreed(slice)?;
        self.element_type().scaling(bound, weight).ok()
    }

    fn meaning(&self, position: u64) -> Meaning {
        let (operator, scale) = match self.part(position) {
            Part::Max(_) => (Operator::Max, (0, 0)),
            Part::Sum(slice) => (Operator::Sum, self.agreed(slice).unwrap_or_default()),
        };
        Meaning {
            seq: self.first_seq.plus((position - self.first) as u32),
            operator,
            operation: self.first_seq,
            len: self.data.len() as u64,
            element_type: self.element_type() as u32,
            scale,
        }
    }

    /// Writes the slice's values into `out`; returns its operator and this member's tally.
    pub(crate) fn write(
        &self,
        position: u64,
        rank: Rank,
        out: &mut [i32; VALUES_PER_SLICE],
    ) -> (Operator, Tally) {
        out.fill(0);
        let mut astray = false;
        match self.part(position) {
            Part::Max(index) => {
                let bounds = self.bounds.get(bounds_in(index, self.bounds.len())).unwrap_or_default();
                for (to, bound) in out.iter_mut().zip(bounds) {
                    *to = bound.cast_signed();
                }
            }
            Part::Sum(slice) => {
                astray = self.agreed(slice).is_none();
                // A slice that all members have refused goes out as zeros, for the window's sake.
                let scaling = self.scaling(slice).unwrap_or(Scaling::Zeros);
                self.data.write(self.elements(slice), self.weight, scaling, out);
            }
        }
        let meaning = self.meaning(position);
        let check = meaning.contribution(rank, out.iter().copied());
        // A member that does not know the scale must not let the others believe in a sum without it.
        let check = if astray { !check } else { check };
        (meaning.operator, Tally { contributors: 1, weight: self.weight, check })
    }

    /// Whether a result can be believed, given the generations whose members it may have been summed over.
    pub(crate) fn verify(
        &self,
        position: u64,
        header: &Header,
        values: ValuesView<'_>,
        memberships: &[Membership],
    ) -> Result<(), Mismatch> {
        if self.failed {
            return Ok(());
        }
        let meaning = self.meaning(position);
        let tally = header.tally;
        let matching = memberships.iter().rev().find(|members| members.count == tally.contributors);
        let members = matching.or(memberships.last()).copied().unwrap_or(Membership::new(&[]));
        let check = meaning.expected(members, values.iter());
        let reason = if matching.is_none() {
            "contributions are missing or doubled"
        } else if header.operator != meaning.operator {
            "its operator is another one"
        } else if tally.check != check {
            "its check does not fit its values"
        } else if !self.tally_fits(position, tally) {
            "its weight is not what the members agreed on"
        } else if !self.bounds_fit(position, values) {
            "a bound is not one that the members can have sent"
        } else {
            return Ok(());
        };
        Err(Mismatch { reason, contributors: members.count, check })
    }

    /// The total weight was agreed on with the bounds; later slices have less only if a member left.
    fn tally_fits(&self, position: u64, tally: Tally) -> bool {
        match self.part(position) {
            Part::Max(_) => tally.weight >= self.weight,
            Part::Sum(slice) => match self.agreement(slice) {
                Agreement::Reached { weight, contributors } => {
                    tally.weight == weight || (tally.contributors < contributors && tally.weight < weight)
                }
                Agreement::Awaited | Agreement::GivenUp => false,
            },
        }
    }

    /// The largest of all bounds is at least ours, and one that somebody can have sent.
    fn bounds_fit(&self, position: u64, values: ValuesView<'_>) -> bool {
        let Part::Max(index) = self.part(position) else { return true };
        let ours = self.bounds.get(bounds_in(index, self.bounds.len())).unwrap_or_default();
        ours.iter().zip(values.iter().map(i32::cast_unsigned)).all(|(&ours, largest)| {
            largest >= ours
                && largest <= i32::MAX.cast_unsigned()
                && self.element_type().is_plausible(largest)
        })
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
        match self.part(position) {
            Part::Max(index) => {
                let agreed = self.agree(index, tally, values);
                let first_failure = agreed.is_err() && !self.failed;
                self.failed |= agreed.is_err();
                if first_failure { agreed } else { Ok(()) }
            }
            Part::Sum(slice) => {
                if let Some(scaling) = self.scaling(slice) {
                    self.sums.read(self.elements(slice), scaling, values);
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
        let slices = bounds_in(index, self.bounds.len());
        let largest = values.iter().map(i32::cast_unsigned);
        for (bound, largest) in
            self.bounds.get_mut(slices.clone()).unwrap_or_default().iter_mut().zip(largest)
        {
            *bound = largest;
        }
        if let Some(agreement) = self.agreements.get_mut(index) {
            *agreement = Agreement::Reached { weight, contributors };
        }
        if weight > MAX_TOTAL_WEIGHT {
            return Err(CollectiveError::Weight {
                tensor: self.name.clone(),
                weight,
                most: MAX_TOTAL_WEIGHT,
            });
        }
        for (slice, &largest) in slices.clone().zip(self.bounds.get(slices).unwrap_or_default()) {
            let scaling = self.element_type().scaling(largest, weight);
            scaling.map_err(|refusal| self.refused(slice, largest, weight, refusal))?;
        }
        Ok(())
    }

    fn refused(&self, slice: usize, largest: u32, weight: u32, refusal: Refusal) -> CollectiveError {
        let (tensor, Range { start: first, end }) = (self.name.clone(), self.elements(slice));
        match refusal {
            Refusal::NotFinite(rank) => CollectiveError::NotFinite { tensor, rank, first, end },
            Refusal::Overflow => CollectiveError::Overflow { tensor, first, end, largest, weight },
        }
    }

    /// Gives up a slice whose result is wrong for good; the error, if the operation has not failed before.
    pub(crate) fn give_up(
        &mut self,
        position: u64,
        tally: Tally,
        mismatch: Mismatch,
    ) -> Option<CollectiveError> {
        self.unfinished -= 1;
        if let Part::Max(index) = self.part(position)
            && let Some(agreement) = self.agreements.get_mut(index)
        {
            *agreement = Agreement::GivenUp;
        }
        (!std::mem::replace(&mut self.failed, true)).then(|| CollectiveError::WrongSum {
            tensor: self.name.clone(),
            seq: self.meaning(position).seq,
            reason: mismatch.reason,
            contributors: mismatch.contributors,
            contributors_got: tally.contributors,
            check: mismatch.check,
            check_got: tally.check,
        })
    }

    /// The result of an operation that is finished; `None` if it failed.
    pub(crate) fn into_reduced(self) -> Option<Reduced> {
        let Some(&Agreement::Reached { weight, contributors }) = self.agreements.first() else { return None };
        if self.failed {
            return None;
        }
        let mut runs: Vec<Run> = Vec::new();
        for (slice, tally) in self.tallies.iter().enumerate() {
            let len = self.elements(slice).len();
            match runs.last_mut() {
                Some(run) if (run.weight, run.contributors) == (tally.weight, tally.contributors) => {
                    run.len += len;
                }
                _ => runs.push(Run { len, weight: tally.weight, contributors: tally.contributors }),
            }
        }
        Some(Reduced { sums: self.sums, weight, contributors, runs })
    }
}

/// Which of `slices` SUM slices have their bounds in MAX slice `index`.
fn bounds_in(index: usize, slices: usize) -> Range<usize> {
    let first = (index * VALUES_PER_SLICE).min(slices);
    first..(first + VALUES_PER_SLICE).min(slices)
}
