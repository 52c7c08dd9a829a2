//! The part of a server that reads the sums.

use std::collections::VecDeque;
use std::sync::Arc;

use tributary_wire::{JobId, JobSecret, Operator, Rank, Seq, SliceWidth, ValuesView, values};

use super::slot::{ServerSlot, Sum, index_of};
use crate::error::StartError;
use crate::masks::{MaskedSlice, Masks};
use crate::numbers::Tensor;
use crate::operation::{Buffers, OperationEvent, OperationId, Operations};
use crate::stripe::Stripe;
use crate::tags::Membership;

/// Assembles the operations from the slices that the server finishes.
/// It verifies each slice like a member does.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    membership: Arc<Membership>,
    operations: Operations<()>,
    /// The announced operations that have not begun, because the end of the operation before them is not
    /// known.
    waiting: VecDeque<(Tensor, Buffers)>,
    window: u32,
    events: VecDeque<OperationEvent>,
    /// A buffer for the values of a slice in network byte order.
    bytes: Box<[u8]>,
    /// The masks of a confidential job, and a buffer for a slice without masks; `None` in other jobs.
    masks: Option<(Masks, Box<[u8]>)>,
}

impl Reader {
    pub(super) fn new(
        (secret, width): (&JobSecret, SliceWidth),
        masks: Option<Masks>,
        (job, members): (JobId, &[Rank]),
        start: Seq,
        window: u32,
    ) -> Self {
        Self {
            membership: Arc::new(Membership::new((secret, width), job, members)),
            operations: Operations::new((Stripe::WHOLE, start), 0, width, window),
            waiting: VecDeque::new(),
            window,
            events: VecDeque::new(),
            bytes: vec![0; width.bytes()].into(),
            masks: masks.map(|masks| (masks, vec![0; width.bytes()].into())),
        }
    }

    /// Returns the present members.
    pub(super) fn membership(&self) -> Arc<Membership> {
        self.membership.clone()
    }

    pub(super) fn change_generation(&mut self, job: JobId, members: &[Rank]) {
        self.membership = Arc::new(self.membership.next(job, members));
    }

    /// Records the next operation, and reads its finished slices.
    /// These slices are still in their slots, because [`is_too_early`](Self::is_too_early) has kept the next slices of
    /// the slots out.
    ///
    /// # Errors
    /// [`StartError::NoMemory`] if the allocation of memory fails.
    pub(super) fn expect(&mut self, tensor: Tensor, slots: &[ServerSlot]) -> Result<OperationId, StartError> {
        let buffers = self.operations.buffers_to_read(&tensor)?;
        let id = OperationId(self.operations.begun() + self.waiting.len() as u64);
        self.waiting.push_back((tensor, buffers));
        self.begin_waiting(slots);
        Ok(id)
    }

    /// Begins waiting operations, each once the members have agreed on the bounds of the operation before
    /// it.
    fn begin_waiting(&mut self, slots: &[ServerSlot]) {
        while let Some(first) = self.operations.next_position()
            && let Some((tensor, buffers)) = self.waiting.pop_front()
        {
            self.operations.begin(&self.membership, tensor, (), buffers);
            let mut position = first;
            // Reading a slice can reveal the number of rest slices, so the end must be computed in each iteration.
            while position < self.operations.known_next().min(first + u64::from(self.window)) {
                let seq = self.operations.seq(position);
                let slot = slots.get(index_of(slots, seq));
                if let Some(sum) = slot.and_then(|slot| slot.finished_slice(seq, self.window)) {
                    self.read_one(seq, sum);
                }
                position += 1;
            }
        }
    }

    /// Returns true if a slice must wait, because its result would overwrite a slice of an operation that
    /// is not announced.
    pub(super) fn is_too_early(&self, seq: Seq) -> bool {
        self.operations.position(seq) >= self.operations.known_next() + u64::from(self.window)
    }

    /// Reads a finished slice. A slice of an operation that was not announced stays in its slot.
    pub(super) fn read(&mut self, seq: Seq, sum: &Sum) {
        self.read_one(seq, sum);
        // No slice of the waiting operations is finished, because members begin them later.
        self.begin_waiting(&[]);
    }

    fn read_one(&mut self, seq: Seq, sum: &Sum) {
        let position = self.operations.position(seq);
        let (Some(operation), Some(members)) = (self.operations.at(position), &sum.members) else { return };
        values::write(&sum.values, &mut self.bytes);
        let mut values = ValuesView::new(&self.bytes);
        if let Some((masks, revealed)) = &mut self.masks
            && let Some(first) = operation.relayed_by(position, members).or(members.first())
            && operation.operator(position, members) != Operator::Max
        {
            let slice = MaskedSlice { job: members.job(), operation: operation.id, seq };
            masks.reveal(slice, first, values, revealed);
            values = ValuesView::new(revealed);
        }
        let failure = match operation.verify(position, (sum.operator, sum.totals), values, (members, None)) {
            Ok(()) => operation.accept(position, (sum.operator, sum.totals), values).err(),
            // The server has no other copy of the sum, so it cannot retry.
            Err(mismatch) => operation.give_up(position, sum.totals, mismatch),
        };
        let operation = operation.id;
        self.events.extend(failure.map(|error| OperationEvent::Failed { operation, error }));
        self.events.extend(std::iter::from_fn(|| self.operations.pop_ended()));
    }

    pub(super) fn poll_event(&mut self) -> Option<OperationEvent> {
        self.events.pop_front()
    }
}
