//! Hashes of the state that determines an operation's future, for programs that compare states.

use std::hash::{Hash, Hasher};

use super::Operation;

impl<C> Operation<C> {
    /// Hashes the operation without its elements, because they follow from the contribution or from the
    /// totals.
    pub(super) fn hash_state(&self, into: &mut impl Hasher) {
        (self.id, self.least_weight, &self.lanes, &self.first_lanes, &self.agreements).hash(into);
        (&self.totals, self.unfinished, self.failed, self.told).hash(into);
        self.rest.hash_state(into);
    }
}
