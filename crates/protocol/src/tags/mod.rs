//! Tags: the authenticators by which a receiver distinguishes a correct sum from a wrong one.
//!
//! Each worker puts into its header the tag
//!
//! ```text
//! t = Σ r_i · v_i  +  r_w · weight  +  Σ r_l · owns_l  +  F(rank, job, slice)    mod P
//! ```
//!
//! of its values v_i, written in two digits. Switches and the server only add the digits as plain numbers, and know
//! nothing else about tags. The receiver knows the members. So it can compute the tag that the received sum must have,
//! with Σ v_i, Σ weight and ΣF in place of one member's numbers. The coefficients r and the pads F are derived from the
//! job's [secret](JobSecret). Computing ΣF takes no longer than computing one pad ([`Pads`]).
//!
//! To an attacker without the secret, a tag is a random number, because of its pad, and reveals nothing about the
//! coefficients. If the attacker changes values by d_i, not all of them 0, it must change the tag by Σ r_i · d_i mod P.
//! This sum takes each value with equal probability if some d_i is not a multiple of P. That is always so, because P is
//! above 2^32. (Two tags modulo two primes below 2^32 would take as many bits, but lack this property: a value that is
//! wrong by such a prime would still fit its tag.) The sum of the pads changes if a contribution was added twice, was
//! left out, was put in place of another slice, or was repeated from another generation. It also changes if a member
//! runs another operation.
//!
//! MAX is not linear, so the tag of a MAX slice covers only the weight. If a maximum is too low, a member that has sent
//! a larger value detects it. To detect a maximum that is too high, each lane of a bound names the member that it comes
//! from. That member confirms it in the SUM slice whose scale follows from it: `owns_l` is 1 at the owner of lane l and
//! 0 at other members. The receiver expects one confirmation for each lane whose owner is still a member. The pads
//! cover a keyed digest of the bounds that a member received. So differences of the maxima between members are also
//! detected.

mod field;
mod keys;
mod meaning;
mod products;

use std::fmt;
use std::sync::Arc;

use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth, Tag, ValuesView};

use crate::numbers::lanes::owner;
use crate::numbers::vectors::sum_of_owned;
use field::Field;
pub(crate) use field::MOST_MEMBERS;
pub(crate) use keys::cipher;
use keys::{Coefficients, Keys, Pads};
pub(crate) use meaning::{Meaning, Subject, SubjectDigests, name_hash};
use products::Multipliers;

/// One member's rank and weight in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) rank: Rank,
    pub(crate) weight: u32,
}

/// The sum of all members' pads for one slice.
/// It is the part of their sum's tag that does not depend on the values.
#[derive(Clone, Copy)]
pub(crate) struct PadSum {
    /// The data-plane id of the members' generation.
    job: JobId,
    operator: Operator,
    sum: i128,
}

impl PadSum {
    /// Returns true if these are pads of `members`.
    pub(crate) fn is_of(&self, members: &Membership) -> bool {
        self.job == members.job
    }
}

/// Hides the sum, which must stay as secret as the pads.
impl fmt::Debug for PadSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PadSum(…)")
    }
}

/// The values that determine the scales of a SUM slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed<'a> {
    /// The lanes of the slice's blocks, in order.
    pub(crate) lanes: &'a [i32],
    /// The first lane of the MAX slice that carried `lanes`.
    pub(crate) first_lane: u32,
    /// The total weight.
    pub(crate) weight: u32,
}

/// The members of one generation of a job, and the keys that make and verify their tags.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    job: JobId,
    /// The members in order.
    row: Box<[Rank]>,
    /// For each rank up to the last member's rank, true if it is a member.
    present: Box<[bool]>,
    keys: Arc<Keys>,
    pads: Pads,
}

impl Membership {
    /// Makes the membership of a generation with these `ranks`, each named once.
    /// All generations of a job have the same secret and width.
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
        // The number fits, because it is at most `MOST_MEMBERS`.
        self.row.len() as u32
    }

    /// Returns the generation's data-plane id.
    pub(crate) fn job(&self) -> JobId {
        self.job
    }

    /// Returns the first member in the row of all members.
    pub(crate) fn first(&self) -> Option<Rank> {
        self.row.first().copied()
    }

    /// Returns the member behind `rank` in the row of all members.
    pub(crate) fn behind(&self, rank: Rank) -> Option<Rank> {
        let at = self.row.binary_search(&rank).ok()?;
        self.row.get(at + 1).copied()
    }

    /// Returns true if this rank is a member.
    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.present.get(usize::from(rank.get())) == Some(&true)
    }

    /// Returns a keyed digest of the values from which a slice's scales follow.
    /// To a switch without the secret, two different inputs have the same digest with probability 1 / P.
    pub(crate) fn digest(&self, agreed: &Agreed<'_>) -> u64 {
        let Keys { field, coefficients, .. } = &*self.keys;
        let product = |coefficient: u64, number: u32| i128::from(coefficient) * i128::from(number);
        let [of_weight, of_first_lane] = coefficients.digest;
        let others = product(of_weight, agreed.weight) + product(of_first_lane, agreed.first_lane);
        field.reduce(others + coefficients.digest_of_lanes.of_numbers(agreed.lanes))
    }

    /// Returns the part of a tag by which `member` confirms the lanes that it owns. It is below 2^64.
    fn confirmed_by(&self, member: Rank, lanes: &[i32]) -> i128 {
        sum_of_owned(member, lanes, &self.keys.coefficients.owners).into()
    }

    /// Returns the part of a tag by which all members confirm the lanes that they own. It is below 2^64.
    fn confirmed_by_all(&self, lanes: &[i32]) -> i128 {
        let lanes = lanes.iter().zip(&self.keys.coefficients.owners);
        let owned = |lane: i32| owner(lane.cast_unsigned()).is_some_and(|owner| self.contains(owner));
        lanes.map(|(lane, coefficient)| if owned(*lane) { *coefficient } else { 0 }).sum::<u64>().into()
    }

    /// Returns one member's tag of its `values`, and the sum of all members' pads.
    /// `lanes` are the agreed lanes of a SUM slice's blocks.
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

    /// Returns the tag of a relayed slice, and its pad.
    /// Only `root` sends the slice, so its number is the pad.
    pub(crate) fn tag_relayed(&self, meaning: &Meaning, root: Rank, values: &[i32]) -> (Tag, PadSum) {
        let (field, operator) = (self.keys.field, meaning.operator);
        let sum = self.pads.of_all(self.job, meaning, root);
        let covered = self.covered(operator, 0, |multipliers| multipliers.of_numbers(values));
        (field.split(field.reduce(covered + sum)), PadSum { job: self.job, operator, sum })
    }

    /// Returns the pad of a slice that only `root` sends.
    pub(crate) fn pad_relayed(&self, meaning: &Meaning, root: Rank) -> PadSum {
        PadSum { job: self.job, operator: meaning.operator, sum: self.pads.of_all(self.job, meaning, root) }
    }

    /// Returns the sum of all members' pads; `None` without members.
    pub(crate) fn pad_sum(&self, meaning: &Meaning) -> Option<PadSum> {
        let sum = self.pads.of_all(self.job, meaning, self.first()?);
        Some(PadSum { job: self.job, operator: meaning.operator, sum })
    }

    /// Returns true if the weight, tag and values are the sum of all members, each once.
    /// The owner of each lane must also have confirmed it.
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

    /// Returns the part of a tag that is linear in contributions: values and weight.
    /// Its magnitude is below 2^106.
    /// `products` computes the sum of the values times their coefficients.
    fn covered(&self, operator: Operator, weight: u32, products: impl FnOnce(&Multipliers) -> i128) -> i128 {
        let Coefficients { values, weight: per_weight, .. } = &self.keys.coefficients;
        let weight = i128::from(*per_weight) * i128::from(weight);
        match operator {
            Operator::Sum | Operator::Relay => products(values) + weight,
            Operator::Max => weight,
        }
    }
}

#[cfg(test)]
mod tests;
