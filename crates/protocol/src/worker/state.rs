//! Hashes of the state that determines a worker's future, for programs that compare states.

use std::hash::{Hash, Hasher};

use super::Worker;
use super::slots::{SlotState, Slots};

impl Worker {
    /// Feeds `into` with the state that determines reactions, unsent packets and unreported events. Two
    /// workers of the same rank, operations and configuration that feed the same bytes behave the same. It leaves out
    /// statistics, time and its derivatives (round trips, back-off, the limit of slices in flight, numbers of
    /// transmissions). They only decide when the worker sends retransmit requests, and for which slices first.
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
                SlotState::Idle => None,
                SlotState::Ready => Some((0, 0, false)),
                // The states `Sent` and `Missing` differ only in the time of the retransmission. A slice in `Lost` is
                // in the queue.
                SlotState::Sent(flight) | SlotState::Missing(flight) => {
                    Some((1, flight.generation, flight.mismatched))
                }
                SlotState::Awaited(flight) => Some((3, flight.generation, flight.mismatched)),
                SlotState::Lost(flight) => Some((2, flight.generation, flight.mismatched)),
            };
            (slot.position, state).hash(into);
        }
    }
}
