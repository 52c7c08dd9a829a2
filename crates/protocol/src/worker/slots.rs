//! The window: the slice that each of the job's slots holds.
//!
//! A slice may be sent once the result of the slice S before it has come (rule 1). So each slot walks through its own
//! slices, and a slot that waits holds up no other slot.

use tributary_wire::{JobId, Operator, Seq, Totals, ValuesView};

use crate::stripe::Stripe;
use crate::tags::PadSum;
use crate::takeover::FinishedSlice;
use crate::time::Time;

/// One slot of the window. Positions count a worker's slices from 0. Unlike a [`Seq`], they never wrap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSlot {
    /// The position of the slot's present slice: the slot's first slice without a result.
    pub(crate) position: u64,
    pub(crate) state: SlotState,
}

/// Progress of a slot's slice.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlotState {
    /// The slice cannot be sent: its operation has not started, or its scale is not known.
    Idle,
    /// The slice waits to be sent for the first time.
    Ready,
    /// The slice was sent; the result is awaited.
    Sent(Flight),
    /// Another member sends the slice; the result is awaited. The slice does not count as in flight.
    Awaited(Flight),
    /// The slice was sent, but results of later slices came first.
    /// It is late or lost, and does not count as in flight.
    Missing(Flight),
    /// The slice was sent and was probably lost. It waits to be sent again.
    Lost(Flight),
}

/// The state of a slice that was sent, by this member or by the root of a broadcast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// The time of the slice's last transmission.
    /// If another member sends the slice, it is the time at which this member began to await it or requested it.
    pub(crate) sent: Time,
    /// The number of the slice's last transmission, counted over all slices.
    pub(crate) transmission: u64,
    /// The number of times that the slice was sent.
    /// If another member sends it, that counts as the first time.
    pub(crate) attempts: u32,
    /// True if this member sent the slice first, so that its result measures a round trip.
    pub(crate) is_ours: bool,
    /// The generation in which the slice was sent for the first time.
    pub(crate) generation: usize,
    /// True if a wrong result for the slice has come.
    pub(crate) mismatched: bool,
    /// The sum of all members' pads in its last transmission.
    pub(crate) pads: Option<PadSum>,
}

impl Flight {
    /// Returns the flight of a slice that is about to be sent by this member for the first time.
    pub(crate) fn new(now: Time, generation: usize) -> Self {
        Self {
            sent: now,
            transmission: 0,
            attempts: 0,
            is_ours: true,
            generation,
            mismatched: false,
            pads: None,
        }
    }
}

/// All slots of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    stripe: Stripe,
    start: Seq,
    /// The first slice that may lack a result: all slices before it have one.
    low: u64,
    pub(super) slots: Box<[WorkerSlot]>,
    /// The last result of each slot; `None` before the first. Later results of the slot reuse its memory.
    finished: Box<[Option<FinishedSlice>]>,
}

impl Slots {
    /// Makes the slots of a stripe of `window` slots (a power of two), for slices from `start` on.
    pub(crate) fn new((stripe, start): (Stripe, Seq), window: u32) -> Self {
        let window = stripe.window(window);
        let (first, mask) = (stripe.index(start), window - 1);
        let slot = |index: u32| WorkerSlot {
            position: u64::from(index.wrapping_sub(first) & mask),
            state: SlotState::Idle,
        };
        Self {
            stripe,
            start,
            low: 0,
            slots: (0..window).map(slot).collect(),
            finished: vec![None; window as usize].into(),
        }
    }

    pub(crate) fn window(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(crate) fn seq(&self, position: u64) -> Seq {
        self.stripe.after(self.start, position)
    }

    fn index(&self, seq: Seq) -> usize {
        self.stripe.index(seq) as usize & (self.slots.len() - 1)
    }

    /// Returns the slot whose present slice is at `position`.
    pub(crate) fn at(&mut self, position: u64) -> Option<&mut WorkerSlot> {
        let index = self.index(self.seq(position));
        self.slots.get_mut(index).filter(|slot| slot.position == position)
    }

    /// Returns the position and the flight of the slice `seq`, if its result is awaited.
    pub(crate) fn awaited(&self, seq: Seq) -> Option<(u64, Flight)> {
        let slot = self.slots.get(self.index(seq)).filter(|slot| self.seq(slot.position) == seq)?;
        match slot.state {
            SlotState::Sent(flight)
            | SlotState::Awaited(flight)
            | SlotState::Missing(flight)
            | SlotState::Lost(flight) => Some((slot.position, flight)),
            SlotState::Idle | SlotState::Ready => None,
        }
    }

    /// Returns the position of each slot, in slot order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|slot| slot.position)
    }

    /// Returns the number of times that the slice was sent; `None` once its result has come.
    pub(crate) fn attempts(&self, position: u64) -> Option<u32> {
        let slot = self.slots.get(self.index(self.seq(position)))?;
        match slot.state {
            _ if slot.position > position => None,
            SlotState::Sent(flight) | SlotState::Missing(flight) | SlotState::Lost(flight)
                if slot.position == position =>
            {
                Some(flight.attempts)
            }
            _ => Some(0),
        }
    }

    /// Stores a result in place of the slot's last one. `job` is the generation that summed it.
    /// `values` is `None` for an acknowledgement.
    pub(crate) fn keep(
        &mut self,
        job: JobId,
        (seq, operator, totals): (Seq, Operator, Totals),
        values: Option<ValuesView<'_>>,
    ) {
        let (index, bytes) = (self.index(seq), values.map_or(&[][..], |values| values.bytes()));
        match self.finished.get_mut(index) {
            Some(Some(kept)) => {
                (kept.job, kept.seq, kept.operator, kept.totals) = (job, seq, operator, totals);
                match kept.values.len() == bytes.len() {
                    true => kept.values.copy_from_slice(bytes),
                    false => kept.values = bytes.into(),
                }
            }
            Some(none) => {
                *none = Some(FinishedSlice { job, seq, operator, totals, values: bytes.into() });
            }
            None => {}
        }
    }

    /// Returns the result of the slice `seq`, if it is the last result of its slot.
    pub(crate) fn finished(&self, seq: Seq) -> Option<&FinishedSlice> {
        self.finished.get(self.index(seq))?.as_ref().filter(|kept| kept.seq == seq)
    }

    /// Records that the slice at `position` has a result, so that its slot moves to its next slice.
    pub(crate) fn advance(&mut self, position: u64) -> u64 {
        let next = position + self.window();
        if let Some(slot) = self.at(position) {
            *slot = WorkerSlot { position: next, state: SlotState::Idle };
        }
        next
    }

    /// Returns true if all slices before `position` have results.
    pub(crate) fn has_all_before(&mut self, position: u64) -> bool {
        let has_result = |slots: &Self, at| {
            slots.slots.get(slots.index(slots.seq(at))).is_some_and(|slot| slot.position > at)
        };
        while self.low < position && has_result(self, self.low) {
            self.low += 1;
        }
        self.low >= position
    }

    /// Returns the positions of slices whose results are awaited, without slices that are queued for
    /// retransmission.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = u64> {
        let unanswered = |slot: &&WorkerSlot| {
            matches!(slot.state, SlotState::Sent(_) | SlotState::Awaited(_) | SlotState::Missing(_))
        };
        self.slots.iter().filter(unanswered).map(|slot| slot.position)
    }
}
