//! The verdict on an awaited result: right or wrong, and the generation that it belongs to.

use tributary_wire::{Header, JobId, Operator, Totals, ValuesView};

use super::Worker;
use super::slots::Flight;
use crate::masks::MaskedSlice;
use crate::operation::{OperationEvent, OperationId};

/// A result that settles its slice.
pub(super) struct Settled {
    /// The generation whose members have summed it.
    pub(super) job: JobId,
    /// The sum of the members' contributions without the values.
    pub(super) totals: Totals,
    /// The operation fails by it.
    pub(super) failure: Option<OperationEvent>,
}

impl Worker {
    /// Takes in a result, if it is the sum of some generation's members in which the slice was under way.
    /// It must carry the [server's proof](crate::vouch) that all members get the same result. The worker requests a
    /// wrong result again, since the copy may have been damaged on its way: then the slice is not settled. A second
    /// wrong result fails its operation.
    pub(super) fn judge(
        &mut self,
        (position, flight): (u64, &Flight),
        header: &Header,
        values: ValuesView<'_>,
    ) -> Option<Settled> {
        let Self { job: present, masks, vouchers, revealed, .. } = self;
        let operation = self.operations.at(position)?;
        let (id, contributors) = (operation.id, header.totals.contributors);
        let is_hidden = operation.operator(position) == Operator::Sum;
        let mut wrong = None;
        for members in self.generations.since(flight.generation).rev() {
            let job = members.job();
            let tag = vouchers.vouch(header.totals.tag, header.seq, job, *present);
            let totals = Totals { tag, ..header.totals };
            let masks = masks.as_ref().filter(|_| is_hidden && members.count() == contributors);
            let values = match masks.zip(members.first()) {
                Some((masks, first)) => {
                    let slice = MaskedSlice { job, operation: id, seq: header.seq };
                    masks.reveal(slice, first, values, revealed);
                    ValuesView::new(revealed)
                }
                None => values,
            };
            match operation.verify(position, (header.operator, totals), values, (members, flight.pads)) {
                Ok(()) => {
                    let failure = operation.accept(position, totals, values).err();
                    return Some(Settled { job, totals, failure: failed(id, failure) });
                }
                // What is wrong with it is said as of the present generation.
                Err(mismatch) => drop(wrong.get_or_insert(mismatch)),
            }
        }
        self.stats.mismatched += 1;
        if !flight.mismatched {
            self.ask_again(position, |flight| flight.mismatched = true);
            return None;
        }
        let failure = operation.give_up(position, header.totals, wrong?);
        Some(Settled { job: *present, totals: header.totals, failure: failed(id, failure) })
    }
}

fn failed(operation: OperationId, error: Option<crate::CollectiveError>) -> Option<OperationEvent> {
    error.map(|error| OperationEvent::Failed { operation, error })
}
