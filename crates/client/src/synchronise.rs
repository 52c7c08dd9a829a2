//! Members synchronise after a member has joined or come back.

use std::ops::Range;

use crate::error::ClientError;
use crate::job::Job;
use crate::operation::Operation;
use crate::regroup::Regroup;
use crate::segment::Segment;

impl Job {
    /// Returns the change for which the members must synchronise before they reduce again.
    /// Set for a process that has joined a running job, and after an all-reduce has ended with
    /// [`ClientError::Regroup`].
    pub fn regroup(&self) -> Option<Regroup> {
        self.membership().to_synchronise_for()
    }

    /// Replaces the elements that `operation` names by the leader's, on all members alike: the same
    /// bits everywhere. This is one all-reduce, to which the leader contributes its elements and everyone else nothing;
    /// the operation's weight is ignored. Everything that has to be the same on all members is best put into one
    /// segment. Without a [`regroup`](Self::regroup) it does nothing. Returns what it has synchronised for, which is
    /// the same on all members.
    ///
    /// If the leader is lost meanwhile, another one takes its place. All-reduces that are started before this has ended
    /// wait for it.
    ///
    /// # Errors
    /// The errors of [`all_reduce`](Self::all_reduce), except [`ClientError::Regroup`]. The elements are then as
    /// before, unless the call was broken off.
    pub async fn synchronise(
        &self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Option<Regroup>, ClientError> {
        let place = operation.bytes_in(segment);
        // If elements are outside, the agent refuses them.
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
                // Others have joined meanwhile, or the leader is lost.
                Err(ClientError::Regroup(_)) => {}
                Err(error) => {
                    // If the connection broke, the agent may be writing.
                    let _ = put(segment, &place, Some(&own));
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
}

/// Writes these bytes to the place, or zeros.
fn put(segment: &mut Segment, place: &Range<usize>, bytes: Option<&[u8]>) -> Result<(), ClientError> {
    let elements = segment.bytes_mut()?.get_mut(place.clone()).unwrap_or_default();
    match bytes {
        Some(bytes) => elements.copy_from_slice(bytes),
        None => elements.fill(0),
    }
    Ok(())
}
