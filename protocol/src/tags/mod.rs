//! The tags that tell a right sum from a wrong one, whoever has made it.
//!
//! Each worker puts into its header the tag
//!
//! ```text
//! t = Σ r_i · v_i  +  r_w · weight  +  r_o · owns  +  F(rank, job, slice)    mod P
//! ```
//!
//! of its values v_i, written in two digits. Switches and the server add digits as plain numbers, which is all that they do
//! and know. The receiver knows the members, so it knows what the sum of their tags must be for the sum that it got: with
//! Σ v_i, Σ weight and ΣF in place of one member's. The coefficients r and the pads F come from the job's
//! [secret](JobSecret). ΣF takes no longer to make than one of them does ([`Pads`]).
//!
//! To whoever has not got the secret a tag is a random number, because of its pad, and says nothing of the coefficients. One
//! who changes values by d_i, not all of them 0, has to change the tag by Σ r_i · d_i mod P, which takes each value with the
//! same probability as long as some d_i is not a multiple of P. None is: P is above 2^32. (Two tags modulo a prime
//! below 2^32 each, which take as many bits, do not give this: a value that is wrong by such a prime is right for its tag.)
//! What was added twice, left out, put into another slice's place, repeated from another generation, or made by a member that
//! runs another operation, changes the sum of the pads.
//!
//! MAX is not linear: a MAX slice's tag covers the weight only. A maximum that is too low is noticed by whoever has sent more.
//! For one that is too high each worker says in its SUM slice whether the bound that the slice's scale follows from is its
//! own: `owns` is 1 or 0. What is left of the sum of tags, divided by r_o, is how many do, and must be one of 1 to the number
//! of members; so a forger has not one chance in P but as many as there are members. Only where a member has left
//! since the bounds were agreed on, its bound may be nobody's any more, and 0 is right, too.

mod field;
mod keys;
mod meaning;
mod products;

use std::sync::Arc;

use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth, Tag, ValuesView};

use field::Field;
pub(crate) use field::MOST_MEMBERS;
pub(crate) use keys::cipher;
use keys::{Coefficients, Keys, Pads};
pub(crate) use meaning::{Meaning, Subject, SubjectDigests, name_hash};
use products::Multipliers;

/// What one member gives to a slice beside its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) rank: Rank,
    pub(crate) weight: u32,
    /// The bound of the slice's scale is this member's own.
    pub(crate) owns: bool,
}

/// The members of one generation of a job, and what makes and verifies their tags.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    job: JobId,
    /// In order.
    row: Box<[Rank]>,
    keys: Arc<Keys>,
    pads: Pads,
}

impl Membership {
    /// `ranks`: each once. Secret and width are the job's for life.
    pub(crate) fn new((secret, width): (&JobSecret, SliceWidth), job: JobId, ranks: &[Rank]) -> Self {
        Self::with_keys(Keys::new(secret, width, Field::new(ranks.len())).into(), job, ranks)
    }

    /// Those of another generation of the same job. What both have in common is there once.
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
        Self { job, row, keys, pads }
    }

    /// What tags need to know of an operation; the same in all generations of the job.
    pub(crate) fn digests(&self, subject: Subject) -> SubjectDigests {
        self.keys.subjects.digests(subject)
    }

    /// How many members there are.
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

    /// One member's tag over its `values`.
    pub(crate) fn tag(&self, meaning: &Meaning, share: Share, values: &[i32]) -> Tag {
        let Keys { field, coefficients, .. } = &*self.keys;
        let pad = self.pads.of_member(self.job, meaning, share.rank, self.behind(share.rank));
        let owned = if share.owns && meaning.operator == Operator::Sum { coefficients.owners } else { 0 };
        let covered = self.covered(meaning, share.weight, |multipliers| multipliers.of_numbers(values));
        field.split(field.reduce(covered + i128::from(owned) + pad))
    }

    /// How many members own the bound of the slice's scale, if all of this comes from all members, each once; `None` if it
    /// does not.
    pub(crate) fn owners(
        &self,
        meaning: &Meaning,
        (weight, tag): (u32, Tag),
        values: ValuesView<'_>,
    ) -> Option<u32> {
        let Keys { field, coefficients, .. } = &*self.keys;
        let pads = self.pads.of_all(self.job, meaning, self.first()?);
        let covered = self.covered(meaning, weight, |multipliers| multipliers.of_view(values));
        let rest = field.reduce(field.join(tag) - pads - covered);
        // It is nearly always one, for which nothing has to be divided.
        let owners =
            if rest == coefficients.owners { 1 } else { field.multiply(rest, coefficients.per_owner) };
        let most = match meaning.operator {
            Operator::Sum => self.count(),
            Operator::Max => 0,
        };
        u32::try_from(owners).ok().filter(|owners| *owners <= most)
    }

    /// The part of a tag that is linear in contributions: the values, whose sum of products is `products`, and the weight. Below
    /// 2^106.
    fn covered(&self, meaning: &Meaning, weight: u32, products: impl FnOnce(&Multipliers) -> i128) -> i128 {
        let Coefficients { values, weight: per_weight, .. } = &self.keys.coefficients;
        let weight = i128::from(*per_weight) * i128::from(weight);
        match meaning.operator {
            Operator::Sum => products(values) + weight,
            Operator::Max => weight,
        }
    }
}

#[cfg(test)]
mod tests;
