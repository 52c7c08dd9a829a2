//! The sequence of the operations of one job.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use tributary_wire::{Seq, SliceWidth};

use super::layout::Layout;
use super::{Buffers, Operation, OperationEvent, OperationId, Tensor};
use crate::error::StartError;
use crate::numbers::{Bounds, Collective, ElementType, Elements, Part};
use crate::stripe::Stripe;
use crate::tags::Membership;

/// The operations under way, oldest first.
/// They follow one another without gaps from the first slice of the job.
#[derive(Debug, Clone)]
pub(crate) struct Operations<C> {
    stripe: Stripe,
    /// The slice at position 0. Positions count the stripe's slices from there. Unlike a [`Seq`], they
    /// never wrap.
    start: Seq,
    width: SliceWidth,
    window: u32,
    under_way: VecDeque<Operation<C>>,
    begun: u64,
    /// The position at which the next operation will begin if none is under way.
    next: u64,
}

impl<C> Operations<C> {
    /// Creates an empty sequence. The job has begun `begun` operations before the slice `start`.
    pub(crate) fn new((stripe, start): (Stripe, Seq), begun: u64, width: SliceWidth, window: u32) -> Self {
        let window = stripe.window(window);
        Self { stripe, start, width, window, under_way: VecDeque::new(), begun, next: 0 }
    }

    /// Allocates the memory for an operation on `tensor`, to which this member contributes the sum of the
    /// parts. `bounds` are the bounds of all parts together, if they are known.
    ///
    /// # Errors
    /// [`StartError::NoMemory`] if an allocation fails.
    pub(crate) fn buffers_for(
        &self,
        tensor: &Tensor,
        (first, further): (Part, Vec<Part>),
        bounds: Option<Bounds>,
    ) -> Result<Buffers, StartError> {
        let bounds = bounds.and_then(|bounds| bounds.of(self.width, tensor));
        Buffers::take(tensor, self.layout(0, tensor), bounds, || Ok(Elements::contributed(first, further)))
    }

    /// Allocates the memory for an operation on `tensor` whose sums are only read.
    ///
    /// # Errors
    /// [`StartError::NoMemory`] if an allocation fails.
    pub(crate) fn buffers_to_read(&self, tensor: &Tensor) -> Result<Buffers, StartError> {
        let elements = || Elements::awaited(tensor.element_type, tensor.len);
        Buffers::take(tensor, self.layout(0, tensor), None, elements)
    }

    fn layout(&self, first: u64, tensor: &Tensor) -> Layout {
        match tensor.collective.root() {
            Some(_) => Layout::of_broadcast(first, tensor.len, self.width, self.window),
            None => Layout::new(first, (tensor.len, tensor.element_type.elements_in_value()), self.width),
        }
    }

    /// Appends an operation of `members`, with its memory, to the sequence.
    /// The [end](Self::next_position) of the operation before it must be known.
    pub(crate) fn begin(
        &mut self,
        members: &Membership,
        tensor: Tensor,
        own: C,
        buffers: Buffers,
    ) -> &mut Operation<C> {
        let (id, first_seq) = (OperationId(self.begun), self.next_seq());
        let layout = self.layout(self.known_next(), &tensor);
        let operation = Operation::new(id, (layout, self.stripe, first_seq), members, tensor, own, buffers);
        self.begun += 1;
        self.under_way.push_back_mut(operation)
    }

    /// Appends an operation without slices, which other stripes run.
    pub(crate) fn begin_elsewhere(&mut self, members: &Membership, own: C) {
        let collective = Collective::AllReduce;
        let tensor = Tensor { name: String::new(), element_type: ElementType::I32, len: 0, collective };
        let layout = Layout::without_slices(self.known_next());
        let (id, slices) = (OperationId(self.begun), (layout, self.stripe, self.next_seq()));
        self.begun += 1;
        self.under_way.push_back(Operation::new(id, slices, members, tensor, own, Buffers::none()));
    }

    /// Returns the number of operations that were begun since the job's start.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the operation with the number `id`, if it is under way.
    pub(crate) fn get(&mut self, id: OperationId) -> Option<&mut Operation<C>> {
        let first = self.under_way.front()?.id;
        self.under_way.get_mut(usize::try_from(id.0.checked_sub(first.0)?).ok()?)
    }

    /// Returns the operation that contains the slice at `position`.
    pub(crate) fn at(&mut self, position: u64) -> Option<&mut Operation<C>> {
        let after = self.under_way.partition_point(|operation| operation.layout.first <= position);
        let operation = self.under_way.get_mut(after.checked_sub(1)?)?;
        (position < operation.layout.known_end()).then_some(operation)
    }

    /// Removes the oldest operations whose slices all have results, up to the first one with an outcome to
    /// report.
    pub(crate) fn pop_ended(&mut self) -> Option<OperationEvent> {
        while let Some(operation) = self.under_way.pop_front_if(|operation| operation.is_finished()) {
            let id = operation.id;
            self.next = operation.layout.known_end();
            if let Some(outcome) = operation.into_outcome() {
                return Some(match outcome {
                    Ok(reduced) => OperationEvent::Completed { operation: id, reduced },
                    Err(error) => OperationEvent::Failed { operation: id, error },
                });
            }
        }
        None
    }

    /// Returns true if an operation under way was abandoned by its caller and has not failed.
    pub(crate) fn has_given_up(&self) -> bool {
        self.under_way.iter().any(Operation::is_given_up)
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns the position of the next operation; `None` until the bounds of the last operation are agreed
    /// on.
    pub(crate) fn next_position(&self) -> Option<u64> {
        self.under_way.back().map_or(Some(self.next), |last| last.layout.end())
    }

    /// Returns the position of the next operation.
    /// Until the bounds of the last operation are agreed on, the position of its first rest slice.
    pub(crate) fn known_next(&self) -> u64 {
        self.under_way.back().map_or(self.next, |last| last.layout.known_end())
    }

    /// Returns the first slice of the next operation.
    /// It is final once all operations that have begun are done.
    pub(crate) fn next_seq(&self) -> Seq {
        self.seq(self.known_next())
    }

    pub(crate) fn seq(&self, position: u64) -> Seq {
        self.stripe.after(self.start, position)
    }

    /// Returns the position of a slice that is at most 2^31 slices away from the operations under way.
    pub(crate) fn position(&self, seq: Seq) -> u64 {
        let base = self.under_way.front().map_or(self.next, |operation| operation.layout.first);
        base.saturating_add_signed(self.stripe.distance(seq, self.seq(base)).into())
    }

    /// Hashes the state that determines the future of the operations.
    pub(crate) fn hash_state(&self, into: &mut impl Hasher) {
        (self.begun, self.next, self.under_way.len()).hash(into);
        self.under_way.iter().for_each(|operation| operation.hash_state(into));
    }
}
