//! The decision on an awaited result: if it is correct, and the generation that it belongs to.

use tributary_wire::{Header, JobId, Operator, Totals, ValuesView};

use super::Worker;
use super::slots::Flight;
use crate::masks::MaskedSlice;
use crate::operation::{Mismatch, OperationEvent, OperationId};
use crate::tags::Membership;

/// A result that settles its slice.
pub(super) struct Settled {
    /// The generation whose members are in the sum.
    pub(super) job: JobId,
    /// The aggregated header fields.
    pub(super) totals: Totals,
    /// The failure of the operation, if the result causes it.
    pub(super) failure: Option<OperationEvent>,
}

impl Worker {
    /// Checks a result. It is correct if it is the sum of a generation in which the slice was under way.
    /// It must carry the [server's proof](crate::vouch) that all members get this result. If a result is wrong, its
    /// copy may have been damaged on the way. So the worker requests it again, and this function returns `None`. A
    /// second wrong result fails the operation.
    pub(super) fn judge(
        &mut self,
        (position, flight): (u64, &Flight),
        header: &Header,
        values: ValuesView<'_>,
    ) -> Option<Settled> {
        let Self { job: present, masks, vouchers, revealed, .. } = self;
        let operation = self.operations.at(position)?;
        let (id, contributors) = (operation.id, header.totals.count());
        let mut wrong = None;
        for members in self.generations.since(flight.generation).rev() {
            let job = members.job();
            let tag = vouchers.vouch(header.totals.tag, header.seq, job, *present);
            let totals = Totals { tag, ..header.totals };
            let relayed_by = operation.relayed_by(position, members);
            let is_hidden = operation.operator(position, members) != Operator::Max;
            let is_of_all = relayed_by.is_some() || members.count() == contributors;
            let masks = masks.as_ref().filter(|_| is_hidden && is_of_all);
            let values = match masks.zip(relayed_by.or(members.first())) {
                Some((masks, first)) => {
                    let slice = MaskedSlice { job, operation: id, seq: header.seq };
                    masks.reveal(slice, first, values, revealed);
                    ValuesView::new(revealed)
                }
                None => values,
            };
            match operation.verify(position, (header.operator, totals), values, (members, flight.pads)) {
                Ok(()) => {
                    let failure = operation.accept(position, (header.operator, totals), values).err();
                    return Some(Settled { job, totals, failure: failed(id, failure) });
                }
                // If no generation fits, the error describes the mismatch with the present generation, which is checked
                // first.
                Err(mismatch) => drop(wrong.get_or_insert(mismatch)),
            }
        }
        self.refuse((position, flight), header.totals, wrong?)
    }
}

impl Worker {
    /// Checks an acknowledgement, as [`judge`](Self::judge) checks a result.
    /// The server sends it in place of the sums that only their owner receives. The owner ignores it, unless the server answers that it has no sums.
    pub(super) fn judge_acknowledgement(
        &mut self,
        (position, flight): (u64, &Flight),
        header: &Header,
    ) -> Option<Settled> {
        let Self { job: present, vouchers, generations, operations, .. } = self;
        let operation = operations.at(position)?;
        let (id, totals) = (operation.id, header.totals);
        let fits = |members: &&Membership| {
            operation.verify_acknowledgement(position, (header.operator, totals), members)
                && totals.tag == vouchers.acknowledge(header.seq, members.job(), *present)
        };
        if let Some(members) = generations.since(flight.generation).rev().find(fits) {
            let job = members.job();
            let failure = if operation.owner(position, members) != Some(self.rank) {
                operation.acknowledge(position, totals);
                None
            } else if header.rank == self.rank {
                operation.lose(position)
            } else {
                return None;
            };
            return Some(Settled { job, totals, failure: failed(id, failure) });
        }
        let contributors = self.generations.present().count();
        self.refuse((position, flight), totals, Mismatch { reason: "it is not the server's", contributors })
    }

    /// Requests a slice again whose result is wrong. The second wrong result fails the operation.
    fn refuse(
        &mut self,
        (position, flight): (u64, &Flight),
        totals: Totals,
        mismatch: Mismatch,
    ) -> Option<Settled> {
        self.stats.mismatched += 1;
        if !flight.mismatched {
            self.ask_again(position, |flight| flight.mismatched = true);
            return None;
        }
        let operation = self.operations.at(position)?;
        let id = operation.id;
        let failure = operation.give_up(position, totals, mismatch);
        Some(Settled { job: self.job, totals, failure: failed(id, failure) })
    }
}

fn failed(operation: OperationId, error: Option<crate::CollectiveError>) -> Option<OperationEvent> {
    error.map(|error| OperationEvent::Failed { operation, error })
}
