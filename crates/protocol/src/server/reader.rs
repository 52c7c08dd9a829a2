//! The sums, as the server reads them.

use std::collections::VecDeque;
use std::sync::Arc;

use tributary_wire::{JobId, JobSecret, Operator, Rank, Seq, SliceWidth, ValuesView, values};

use super::slot::{Slot, Sum, index_of};
use crate::error::StartError;
use crate::masks::{MaskedSlice, Masks};
use crate::numbers::Tensor;
use crate::operation::{Buffers, OperationEvent, OperationId, Operations};
use crate::tags::Membership;

/// Puts together the operations whose slices a server finishes.
/// Each slice is verified as a member does it.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    membership: Arc<Membership>,
    operations: Operations<()>,
    /// Operations that may not begin yet.
    waiting: VecDeque<(Tensor, Buffers)>,
    window: u32,
    events: VecDeque<OperationEvent>,
    /// A buffer for a slice as it is sent to the members.
    bytes: Box<[u8]>,
    /// In a confidential job: the masks, and a buffer for a slice without them.
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
            operations: Operations::new(start, 0, width),
            waiting: VecDeque::new(),
            window,
            events: VecDeque::new(),
            bytes: vec![0; width.bytes()].into(),
            masks: masks.map(|masks| (masks, vec![0; width.bytes()].into())),
        }
    }

    /// The present members.
    pub(super) fn membership(&self) -> Arc<Membership> {
        self.membership.clone()
    }

    pub(super) fn change_generation(&mut self, job: JobId, members: &[Rank]) {
        self.membership = Arc::new(self.membership.next(job, members));
    }

    /// Takes note of the next operation, and reads what is finished of it: that is in its slot still, since
    /// [`is_too_early`](Self::is_too_early) has kept the slot's next slice waiting.
    ///
    /// # Errors
    /// [`StartError::NoMemory`]
    pub(super) fn expect(&mut self, tensor: Tensor, slots: &[Slot]) -> Result<OperationId, StartError> {
        let buffers = self.operations.buffers_to_read(&tensor)?;
        let id = OperationId(self.operations.begun() + self.waiting.len() as u64);
        self.waiting.push_back((tensor, buffers));
        self.begin_waiting(slots);
        Ok(id)
    }

    /// Begins the operations that wait, each once the bounds of the one before it are agreed on.
    fn begin_waiting(&mut self, slots: &[Slot]) {
        while let Some(first) = self.operations.next_position()
            && let Some((tensor, buffers)) = self.waiting.pop_front()
        {
            self.operations.begin(&self.membership, tensor, (), buffers);
            let mut position = first;
            // The operation's end may become known meanwhile.
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

    /// Returns true if finishing this slice would overwrite a slice of an operation that is not known yet.
    pub(super) fn is_too_early(&self, seq: Seq) -> bool {
        self.operations.position(seq) >= self.operations.known_next() + u64::from(self.window)
    }

    /// Reads a slice that is finished; one of an operation that is not known is left where it is.
    pub(super) fn read(&mut self, seq: Seq, sum: &Sum) {
        self.read_one(seq, sum);
        // No slice of these is finished: members begin them later.
        self.begin_waiting(&[]);
    }

    fn read_one(&mut self, seq: Seq, sum: &Sum) {
        let position = self.operations.position(seq);
        let (Some(operation), Some(members)) = (self.operations.at(position), &sum.members) else { return };
        values::write(&sum.values, &mut self.bytes);
        let mut values = ValuesView::new(&self.bytes);
        if let Some((masks, revealed)) = &mut self.masks
            && let Some(first) = members.first()
            && operation.operator(position) == Operator::Sum
        {
            let slice = MaskedSlice { job: members.job(), operation: operation.id, seq };
            masks.reveal(slice, first, values, revealed);
            values = ValuesView::new(revealed);
        }
        let failure = match operation.verify(position, (sum.operator, sum.totals), values, (members, None)) {
            Ok(()) => operation.accept(position, sum.totals, values).err(),
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
