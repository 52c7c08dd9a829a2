//! Hashes of the state that determines a server's future, for programs that compare states.

use std::hash::{Hash, Hasher};

use super::Server;
use super::slot::{ServerSlot, Sum};

impl Server {
    /// Feeds `into` with the state that determines the server's answers and its unsent packets.
    /// Two servers of the same configuration that feed the same bytes behave the same. It leaves out time and its
    /// derivatives (the round trip, the receivers to which an answer may be on its way), the sums that a server reads,
    /// and statistics.
    pub fn hash_state(&self, into: &mut impl Hasher) {
        (self.job, &self.members, self.fan_in, &self.queue).hash(into);
        self.slots.iter().for_each(|slot| slot.hash_state(into));
    }
}

impl ServerSlot {
    fn hash_state(&self, into: &mut impl Hasher) {
        self.due.hash(into);
        self.children.hash(into);
        // The old sum in an empty slot has no effect, so it is left out.
        (!self.is_empty()).then_some(&self.partial).map(Sum::state).hash(into);
        self.finished.as_ref().map(Sum::state).hash(into);
    }
}

impl Sum {
    fn state(&self) -> impl Hash + '_ {
        (self.job, self.operator, self.totals, &self.values)
    }
}
