//! The state that determines an operation's future, hashed for programs that compare states.

use std::hash::{Hash, Hasher};

use super::Operation;

impl<C> Operation<C> {
    /// Hashes the operation without its elements: they equal the contribution, or the sums
    /// that the totals belong to.
    pub(super) fn hash_state(&self, into: &mut impl Hasher) {
        (self.id, self.least_weight, &self.lanes, &self.not_finite, &self.agreements).hash(into);
        (&self.totals, self.unfinished, self.failed, self.told).hash(into);
        self.rest.hash_state(into);
    }
}
