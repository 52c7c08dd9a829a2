//! What a server's future depends on, for whoever compares states.

use std::hash::{Hash, Hasher};

use super::Server;
use super::slot::{Slot, Sum};

impl Server {
    /// Feeds `into` with what decides how this server answers what comes, and what it is still to send: two servers of the
    /// same configuration that feed it alike do alike. Left out are time and what is made of it (the round trip, to whom
    /// an answer may be on its way), what a server reads, and statistics.
    pub fn hash_state(&self, into: &mut impl Hasher) {
        (self.job, &self.members, self.fan_in, &self.queue).hash(into);
        self.slots.iter().for_each(|slot| slot.hash_state(into));
    }
}

impl Slot {
    fn hash_state(&self, into: &mut impl Hasher) {
        self.due.hash(into);
        self.children.hash(into);
        // What an empty slot has summed before is forgotten.
        (!self.is_empty()).then_some(&self.partial).map(Sum::state).hash(into);
        self.finished.as_ref().map(Sum::state).hash(into);
    }
}

impl Sum {
    fn state(&self) -> impl Hash + '_ {
        (self.job, self.operator, self.tally, &self.values)
    }
}
