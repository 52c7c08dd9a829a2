//! Whether a result can be believed.

use tributary_wire::{Operator, Tally, ValuesView};

use super::{Agreement, Operation, Part};
use crate::check::Membership;

/// A result that cannot be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(super) reason: &'static str,
    pub(super) contributors: u32,
    pub(super) check: u32,
}

impl<C> Operation<C> {
    /// Whether a result can be believed, given the generations whose members it may have been summed over.
    pub(crate) fn verify(
        &self,
        position: u64,
        (operator, tally): (Operator, Tally),
        values: ValuesView<'_>,
        memberships: &[Membership],
    ) -> Result<(), Mismatch> {
        if self.failed {
            return Ok(());
        }
        let meaning = self.meaning(position);
        let matching = memberships.iter().rev().find(|members| members.count == tally.contributors);
        let members = matching.or(memberships.last()).copied().unwrap_or(Membership::new(&[]));
        let check = meaning.expected(members, values.iter());
        let reason = if matching.is_none() {
            "contributions are missing or doubled"
        } else if operator != meaning.operator {
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
        match self.layout.part(position) {
            Part::Max(_) => tally.weight >= self.least_weight,
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
        let Part::Max(index) = self.layout.part(position) else { return true };
        self.bounds_in(index).iter().zip(values.iter().map(i32::cast_unsigned)).all(|(&ours, largest)| {
            largest >= ours
                && largest <= i32::MAX.cast_unsigned()
                && self.tensor.element_type.is_plausible(largest)
        })
    }
}
