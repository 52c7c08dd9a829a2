//! Tags: they distinguish a right sum from a wrong one, independent of its source.
//!
//! Each worker puts into its header the tag
//!
//! ```text
//! t = Σ r_i · v_i  +  r_w · weight  +  Σ r_l · owns_l  +  F(rank, job, slice)    mod P
//! ```
//!
//! of its values v_i, written in two digits. Switches and the server only add the digits as plain numbers, without any
//! other knowledge of tags. The receiver knows the members, so it can compute the sum of their tags for the sum that it
//! received: with Σ v_i, Σ weight and ΣF in place of one member's. The coefficients r and the pads F come from the
//! job's [secret](JobSecret). Making ΣF takes no longer than making one pad ([`Pads`]).
//!
//! Without the secret a tag is a random number, because of its pad, and reveals nothing about the coefficients. An
//! attacker who changes values by d_i, not all of them 0, has to change the tag by Σ r_i · d_i mod P. This sum takes
//! each value with the same probability as long as some d_i is not a multiple of P. None is: P is above 2^32. (Two tags
//! modulo a prime below 2^32 each, which take as many bits, do not give this: a value that is wrong by such a prime is
//! right for its tag.) The sum of the pads changes if a contribution was added twice, left out, put into another
//! slice's place or repeated from another generation, or if its member runs another operation.
//!
//! MAX is not linear: a MAX slice's tag covers the weight only. A member that has sent more notices a maximum that is
//! too low. Against a maximum that is too high, each lane of a bound names the member that it comes from. That member
//! confirms it in the SUM slice whose scale follows from it: `owns_l` is 1 at the owner of lane l and 0 at others. The
//! receiver expects one confirmation for each lane whose owner is still a member. The bounds that a member received are
//! part of its pads, as a keyed digest, so that maxima that differ between members are noticed, too.

mod field;
mod keys;
mod meaning;
mod products;

use std::fmt;
use std::sync::Arc;

use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth, Tag, ValuesView};

use crate::numbers::bound::owner;
use crate::numbers::vectors::sum_of_owned;
use field::Field;
pub(crate) use field::MOST_MEMBERS;
pub(crate) use keys::cipher;
use keys::{Coefficients, Keys, Pads};
pub(crate) use meaning::{Meaning, Subject, SubjectDigests, name_hash};
use products::Multipliers;

/// The contribution of one member to a slice, without the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) rank: Rank,
    pub(crate) weight: u32,
}

/// The sum of all members' pads for one slice: the part of the tag of their sum that does not
/// depend on the values.
#[derive(Clone, Copy)]
pub(crate) struct PadSum {
    /// The members' generation.
    job: JobId,
    operator: Operator,
    sum: i128,
}

impl PadSum {
    /// Returns true if these are the pads of these members.
    pub(crate) fn is_of(&self, members: &Membership) -> bool {
        self.job == members.job
    }
}

/// Does not show the sum, which is as secret as the pads.
impl fmt::Debug for PadSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PadSum(…)")
    }
}

/// The values that determine the scales of a SUM slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed<'a> {
    /// The lanes of its blocks, one after the other.
    pub(crate) lanes: &'a [i32],
    /// The first lane of the MAX slice that agreed on them.
    pub(crate) not_finite: u32,
    /// The total weight.
    pub(crate) weight: u32,
}

/// The members of one generation of a job, and what makes and verifies their tags.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    job: JobId,
    /// In order.
    row: Box<[Rank]>,
    /// Per rank up to the last member's: whether it is a member.
    present: Box<[bool]>,
    keys: Arc<Keys>,
    pads: Pads,
}

impl Membership {
    /// The membership of a generation with these `ranks`, each named once. All generations of the job have
    /// the same secret and width.
    pub(crate) fn new((secret, width): (&JobSecret, SliceWidth), job: JobId, ranks: &[Rank]) -> Self {
        Self::with_keys(Keys::new(secret, width, Field::new(ranks.len())).into(), job, ranks)
    }

    /// Returns the membership of another generation of the job.
    /// Both generations share one copy of their common keys.
    pub(crate) fn next(&self, job: JobId, ranks: &[Rank]) -> Self {
        let Keys { secret, width, field, .. } = &*self.keys;
        if Field::new(ranks.len()) == *field {
            return Self::with_keys(self.keys.clone(), job, ranks);
        }
        Self::new((secret, *width), job, ranks)
    }

    fn with_keys(keys: Arc<Keys>, job: JobId, ranks: &[Rank]) -> Self {
        let mut row: Box<[_]> = ranks.into();
        row.sort_unstable();
        let pads = Pads::new(&keys.secret, &row);
        let ranks_to_last = row.last().into_iter().flat_map(|last| 0..=last.get());
        let present = ranks_to_last.map(|rank| row.binary_search(&Rank::new(rank)).is_ok()).collect();
        Self { job, row, present, keys, pads }
    }

    /// Returns the digests of an operation that its tags cover; they are equal in all
    /// generations of the job.
    pub(crate) fn digests(&self, subject: Subject) -> SubjectDigests {
        self.keys.subjects.digests(subject)
    }

    /// Returns the number of members.
    pub(crate) fn count(&self) -> u32 {
        // At most MOST_MEMBERS.
        self.row.len() as u32
    }

    /// The generation's data-plane id.
    pub(crate) fn job(&self) -> JobId {
        self.job
    }

    /// The first member in the row of all of them.
    pub(crate) fn first(&self) -> Option<Rank> {
        self.row.first().copied()
    }

    /// The member behind `rank` in that row.
    pub(crate) fn behind(&self, rank: Rank) -> Option<Rank> {
        let at = self.row.binary_search(&rank).ok()?;
        self.row.get(at + 1).copied()
    }

    /// Returns true if this rank is a member.
    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.present.get(usize::from(rank.get())) == Some(&true)
    }

    /// A number that stands for what a slice's scales follow from: two of these have the same number with
    /// probability 1 / P for a switch that does not have the secret.
    pub(crate) fn digest(&self, agreed: &Agreed<'_>) -> u64 {
        let Keys { field, coefficients, .. } = &*self.keys;
        let product = |coefficient: u64, number: u32| i128::from(coefficient) * i128::from(number);
        let [of_weight, of_not_finite] = coefficients.digest;
        let others = product(of_weight, agreed.weight) + product(of_not_finite, agreed.not_finite);
        field.reduce(others + coefficients.digest_of_lanes.of_numbers(agreed.lanes))
    }

    /// The part of a tag by which this member confirms the lanes that it owns. Below 2^64.
    fn confirmed_by(&self, member: Rank, lanes: &[i32]) -> i128 {
        sum_of_owned(member, lanes, &self.keys.coefficients.owners).into()
    }

    /// The part of a tag by which members confirm the lanes that they own. Below 2^64.
    fn confirmed_by_all(&self, lanes: &[i32]) -> i128 {
        let lanes = lanes.iter().zip(&self.keys.coefficients.owners);
        let owned = |lane: i32| owner(lane.cast_unsigned()).is_some_and(|owner| self.contains(owner));
        lanes.map(|(lane, coefficient)| if owned(*lane) { *coefficient } else { 0 }).sum::<u64>().into()
    }

    /// One member's tag over its `values`, and the sum of all members' pads; `lanes` are the agreed lanes
    /// of a SUM slice's blocks.
    pub(crate) fn tag(
        &self,
        meaning: &Meaning,
        share: Share,
        lanes: &[i32],
        values: &[i32],
    ) -> (Tag, PadSum) {
        let (field, job, operator) = (self.keys.field, self.job, meaning.operator);
        let own = (share.rank, self.behind(share.rank));
        let (pad, sum) = self.pads.of_member(job, meaning, own, self.first().unwrap_or(share.rank));
        let confirmed = self.confirmed_by(share.rank, lanes);
        let covered = self.covered(operator, share.weight, |multipliers| multipliers.of_numbers(values));
        (field.split(field.reduce(covered + confirmed + pad)), PadSum { job, operator, sum })
    }

    /// The sum of all members' pads; `None` without members.
    pub(crate) fn pad_sum(&self, meaning: &Meaning) -> Option<PadSum> {
        let sum = self.pads.of_all(self.job, meaning, self.first()?);
        Some(PadSum { job: self.job, operator: meaning.operator, sum })
    }

    /// Returns true if all of this comes from all members, each once, and each
    /// lane's owner has confirmed it.
    pub(crate) fn verifies(
        &self,
        pads: &PadSum,
        (weight, tag): (u32, Tag),
        lanes: &[i32],
        values: ValuesView<'_>,
    ) -> bool {
        let field = self.keys.field;
        let confirmed = self.confirmed_by_all(lanes);
        let covered = self.covered(pads.operator, weight, |multipliers| multipliers.of_view(values));
        field.reduce(field.join(tag) - pads.sum - covered - confirmed) == 0
    }

    /// The part of a tag that is linear in contributions: the values, whose sum of products is `products`,
    /// and the weight. Below 2^106.
    fn covered(&self, operator: Operator, weight: u32, products: impl FnOnce(&Multipliers) -> i128) -> i128 {
        let Coefficients { values, weight: per_weight, .. } = &self.keys.coefficients;
        let weight = i128::from(*per_weight) * i128::from(weight);
        match operator {
            Operator::Sum => products(values) + weight,
            Operator::Max => weight,
        }
    }
}

#[cfg(test)]
mod tests;
