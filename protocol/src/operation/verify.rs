//! Whether a result can be believed.

use tributary_wire::{Operator, Tally, ValuesView};

use super::{Agreement, Mismatch, Operation, SliceRole};
use crate::numbers::bound::{Lanes, owner};
use crate::numbers::fixed_point::Total;
use crate::tags::Membership;

impl<C> Operation<C> {
    /// Whether a result can be believed that these members have summed.
    pub(crate) fn verify(
        &self,
        position: u64,
        (operator, tally): (Operator, Tally),
        values: ValuesView<'_>,
        members: &Membership,
    ) -> Result<(), Mismatch> {
        if self.failed {
            return Ok(());
        }
        let meaning = self.meaning(position, members);
        let lanes = self.confirmed_in(position);
        let reason = if members.count() != tally.contributors {
            "contributions are missing or doubled"
        } else if operator != meaning.operator {
            "its operator is another one"
        } else if !members.verifies(&meaning, (tally.weight, tally.tag), lanes, values) {
            "its tag does not fit its values, or its scale follows from a bound that no member has sent"
        } else if !self.tally_fits(position, tally) {
            "its weight is not what the members agreed on"
        } else if !self.bounds_fit(position, values, members) {
            "a bound is not one that the members can have sent"
        } else {
            return Ok(());
        };
        Err(Mismatch { reason, contributors: members.count() })
    }

    /// The total weight was agreed on with the bounds; later slices have less only if a member left.
    fn tally_fits(&self, position: u64, tally: Tally) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => tally.weight >= self.least_weight,
            SliceRole::Sum(slice) => match self.agreement(slice) {
                Agreement::Reached(Total { weight, contributors }) => {
                    tally.weight == weight || (tally.contributors < contributors && tally.weight < weight)
                }
                Agreement::Awaited | Agreement::GivenUp => false,
            },
            SliceRole::Rest(_) => tally.weight == 0,
        }
    }

    /// The largest of all lanes is at least ours, and one that its owner can have sent.
    fn bounds_fit(&self, position: u64, values: ValuesView<'_>, members: &Membership) -> bool {
        let SliceRole::Max(index) = self.layout.part(position) else { return true };
        let largest = || values.iter().map(i32::cast_unsigned);
        let fits = |(ours, largest): (u32, u32)| {
            let owner = owner(largest);
            largest >= ours
                && largest <= i32::MAX.cast_unsigned()
                && owner.is_none_or(|owner| members.contains(owner))
                && (largest == ours || owner.is_none() || owner != self.member)
        };
        let mut lanes = largest().skip(1);
        let are_plausible = self
            .layout
            .blocks_bounded_in(index)
            .all(|_| Lanes::from_next(&mut lanes).are_plausible(self.tensor.element_type));
        self.lanes_in(index).zip(largest()).all(fits) && are_plausible
    }
}
