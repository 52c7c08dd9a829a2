//! Whether a result can be believed.

use tributary_wire::{Operator, Tally, ValuesView};

use super::{Agreement, Mismatch, Operation, SliceRole};
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
        let meaning = self.meaning(position);
        let owners = || members.owners(&meaning, (tally.weight, tally.tag), values);
        let reason = if members.count() != tally.contributors {
            "contributions are missing or doubled"
        } else if operator != meaning.operator {
            "its operator is another one"
        } else if let Some(owners) = owners() {
            if !self.tally_fits(position, tally) {
                "its weight is not what the members agreed on"
            } else if !self.bounds_fit(position, values) {
                "a bound is not one that the members can have sent"
            } else if owners < self.least_owners(position, tally) {
                "its scale follows from a bound that no member has sent"
            } else {
                return Ok(());
            }
        } else {
            "its tag does not fit its values"
        };
        Err(Mismatch { reason, contributors: members.count() })
    }

    /// The least number of members that own the bound of a SUM slice: one, or none where that one may have left since.
    fn least_owners(&self, position: u64, tally: Tally) -> u32 {
        match self.layout.part(position) {
            SliceRole::Max(_) => 0,
            SliceRole::Sum(slice) => match self.agreement(slice) {
                Agreement::Reached { contributors, .. } => (tally.contributors >= contributors).into(),
                Agreement::Awaited | Agreement::GivenUp => 0,
            },
        }
    }

    /// The total weight was agreed on with the bounds; later slices have less only if a member left.
    fn tally_fits(&self, position: u64, tally: Tally) -> bool {
        match self.layout.part(position) {
            SliceRole::Max(_) => tally.weight >= self.least_weight,
            SliceRole::Sum(slice) => match self.agreement(slice) {
                Agreement::Reached { weight, contributors } => {
                    tally.weight == weight || (tally.contributors < contributors && tally.weight < weight)
                }
                Agreement::Awaited | Agreement::GivenUp => false,
            },
        }
    }

    /// The largest of all bounds is at least ours, and one that somebody can have sent.
    fn bounds_fit(&self, position: u64, values: ValuesView<'_>) -> bool {
        let SliceRole::Max(index) = self.layout.part(position) else { return true };
        self.bounds_in(index).iter().zip(values.iter().map(i32::cast_unsigned)).all(|(&ours, largest)| {
            largest >= ours
                && largest <= i32::MAX.cast_unsigned()
                && self.tensor.element_type.is_plausible(largest)
        })
    }
}
