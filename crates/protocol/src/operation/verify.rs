//! The checks of a result before the worker accepts it.

use tributary_wire::{Operator, Totals, ValuesView};

use super::{Agreement, Mismatch, Operation, SliceRole};
use crate::numbers::fixed_point::Total;
use crate::numbers::lanes::{LaneRanges, Lanes, is_first_lane, owner};
use crate::tags::{Membership, PadSum};

impl<C> Operation<C> {
    /// Checks a result that is a sum of `members`, or that the root of a broadcast has sent them.
    /// `pads` is `Some` if this member has sent the slice.
    ///
    /// # Errors
    /// [`Mismatch`] if the result fails a check, so that the caller must not accept it.
    pub(crate) fn verify(
        &self,
        position: u64,
        (operator, totals): (Operator, Totals),
        values: ValuesView<'_>,
        (members, pads): (&Membership, Option<PadSum>),
    ) -> Result<(), Mismatch> {
        if self.failed {
            return Ok(());
        }
        if let SliceRole::Sum(slice) = self.layout.part(position) {
            // The sums will be written to these elements.
            self.elements.prefetch(self.layout.elements(slice));
        }
        let relayed_by = self.relayed_by(position, members);
        let contributors = if relayed_by.is_some() { 1 } else { members.count() };
        let pads = pads.filter(|pads| pads.is_of(members)).or_else(|| {
            let meaning = self.meaning(position, members);
            match relayed_by {
                Some(root) => Some(members.pad_relayed(&meaning, root)),
                None => members.pad_sum(&meaning),
            }
        });
        let fits = |pads: PadSum| {
            members.verifies(&pads, (totals.weight, totals.tag), self.confirmed_in(position), values)
        };
        let expected = Totals::contributors_of(contributors, self.owner(position, members));
        let reason = if expected != totals.contributors {
            "contributions are missing or doubled"
        } else if operator != self.operator(position, members) {
            "its operator is another one"
        } else if !pads.is_some_and(fits) {
            "its tag does not fit its values, or its scale follows from a bound that no member has sent"
        } else if !self.totals_fit(position, totals) {
            "its weight is not what the members agreed on"
        } else if !self.bounds_fit(position, values, members) {
            "a bound is not one that the members can have sent"
        } else {
            return Ok(());
        };
        Err(Mismatch { reason, contributors })
    }

    /// Returns true if the server may have sent this acknowledgement of a slice of `members`.
    /// The caller must check the voucher.
    pub(crate) fn verify_acknowledgement(
        &self,
        position: u64,
        (operator, totals): (Operator, Totals),
        members: &Membership,
    ) -> bool {
        let owner = self.owner(position, members);
        self.failed
            || owner.is_some()
                && operator == self.operator(position, members)
                && totals.contributors == Totals::contributors_of(members.count(), owner)
                && self.totals_fit(position, totals)
    }

    /// Checks the total weight.
    /// The members agree on it with the bounds; it is smaller in a later slice only if a member left.
    fn totals_fit(&self, position: u64, totals: Totals) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => totals.weight >= self.least_weight,
            SliceRole::Sum(slice) => match self.agreement(slice) {
                Agreement::Reached(Total { weight, contributors }) => {
                    totals.weight == weight || (totals.count() < contributors && totals.weight < weight)
                }
                Agreement::Awaited | Agreement::GivenUp => false,
            },
            SliceRole::Relay(_) | SliceRole::Rest(_) => totals.weight == 0,
        }
    }

    /// Checks that each largest lane is at least this member's lane, and that its owner can have sent it.
    fn bounds_fit(&self, position: u64, values: ValuesView<'_>, members: &Membership) -> bool {
        let SliceRole::Max(index) = self.layout.part(position) else { return true };
        let Some((largest, bounds)) = values.split_first() else { return false };
        // The check has no branches, because they would be hard to predict: the lanes are independent.
        let fits = |ours: i32, largest: i32| {
            let owner = owner(largest.cast_unsigned());
            let is_others = (owner != self.member) & owner.is_some_and(|owner| members.contains(owner));
            (largest >= ours) & ((largest == ours) | is_others)
        };
        let (first, lanes) = self.lanes_in(index);
        let ranges = LaneRanges::of(self.tensor.element_type);
        let mut bounds = bounds.iter();
        let mut next = || bounds.next().unwrap_or_default();
        is_first_lane(largest.cast_unsigned())
            && fits(first.cast_signed(), largest)
            && lanes.iter().all(|ours| {
                let largest = [next(), next(), next()];
                let all_fit =
                    ours.iter().zip(largest).fold(true, |all, (ours, lane)| all & fits(*ours, lane));
                (*ours == largest) | (all_fit & ranges.contain(Lanes::of_values(&largest)))
            })
    }
}
