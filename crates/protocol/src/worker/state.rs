//! What a worker's future depends on, for whoever compares states.

use std::hash::{Hash, Hasher};

use super::Worker;
use super::slots::{Slots, State};

impl Worker {
    /// Feeds `into` with what decides how this worker answers what comes, and what it is still to send and to tell: two
    /// workers of the same rank, operations and configuration that feed it alike do alike. Left out are time and what is
    /// made of it (round trips, back-off, how many slices may be in flight, numbers of transmissions), and statistics: they
    /// decide when it asks again, and for which slices first.
    pub fn hash_state(&self, into: &mut impl Hasher) {
        (self.job, self.is_frozen(), self.generations.number(), self.waiting.len(), self.events.len())
            .hash(into);
        self.slots.hash_state(into);
        self.operations.hash_state(into);
    }
}

impl Slots {
    fn hash_state(&self, into: &mut impl Hasher) {
        for slot in &self.slots {
            let state = match slot.state {
                State::Idle => None,
                State::Ready => Some((0, 0, false)),
                // Whether a slice counts as lost decides only when it is sent again; one that is queued is sent.
                State::Sent(flight) | State::Missing(flight) => {
                    Some((1, flight.generation, flight.mismatched))
                }
                State::Lost(flight) => Some((2, flight.generation, flight.mismatched)),
            };
            (slot.position, state).hash(into);
        }
    }
}
