//! What an operation's future depends on, for whoever compares states.

use std::hash::{Hash, Hasher};

use super::Operation;

impl<C> Operation<C> {
    /// The elements are as they were at the beginning, or the sums that the tallies are of.
    pub(super) fn hash_state(&self, into: &mut impl Hasher) {
        (self.id, self.least_weight, &self.lanes, &self.not_finite, &self.agreements).hash(into);
        (&self.tallies, self.unfinished, self.failed, self.told).hash(into);
        self.rest.hash_state(into);
    }
}
