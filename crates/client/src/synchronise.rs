//! Synchronisation of the members after a member has joined or come back.

use std::ops::Range;

use crate::error::ClientError;
use crate::job::Job;
use crate::operation::Operation;
use crate::regroup::Regroup;
use crate::segment::Segment;

impl Job {
    /// Returns the change for which the members must synchronise before they reduce again; `None` if
    /// there is none. A process has one after it has joined a running job, and after an all-reduce has ended with
    /// [`ClientError::Regroup`].
    pub fn regroup(&self) -> Option<Regroup> {
        self.membership().to_synchronise_for()
    }

    /// Replaces the elements of `operation` on all members by the leader's elements, bit for bit. This is
    /// one all-reduce, to which only the leader contributes; the operation's weight is ignored. Put all state that must
    /// be the same on all members into one segment. Does nothing without a [`regroup`](Self::regroup). Returns the
    /// change for which it has synchronised, which is the same on all members.
    ///
    /// If the leader leaves in the meantime, another member takes its place. All-reduces that are started before the
    /// synchronisation has ended wait for it.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce), except [`ClientError::Regroup`]. The elements are then
    /// unchanged, unless the connection broke or the future was dropped.
    pub async fn synchronise(
        &self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Option<Regroup>, ClientError> {
        let place = operation.bytes_in(segment);
        // If elements are outside the segment, the agent refuses the operation.
        let own = segment.bytes()?.get(place.clone()).map(<[u8]>::to_vec).unwrap_or_default();
        while let Some(regroup) = self.regroup() {
            let Regroup { generation, leader, .. } = regroup;
            let leads = leader == self.rank();
            put(segment, &place, if leads { Some(&own) } else { None })?;
            let operation = Operation { weight: leads.into(), ..operation.clone() };
            match self.start_for(segment, &operation, generation)?.await {
                Ok(_) => {
                    self.membership().synchronised(generation);
                    return Ok(Some(regroup));
                }
                // Further members have joined, or the leader has left.
                Err(ClientError::Regroup(_)) => {}
                Err(error) => {
                    // If the connection broke, the agent may still write to the segment, and `put` fails.
                    let _ = put(segment, &place, Some(&own));
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}

/// Writes `bytes` to the place in the segment, or zeros if `bytes` is `None`.
fn put(segment: &mut Segment, place: &Range<usize>, bytes: Option<&[u8]>) -> Result<(), ClientError> {
    let elements = segment.bytes_mut()?.get_mut(place.clone()).unwrap_or_default();
    match bytes {
        Some(bytes) => elements.copy_from_slice(bytes),
        None => elements.fill(0),
    }
    Ok(())
}
