//! Synchronisation of the members after a member has joined or come back.

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
        while let Some(regroup) = self.regroup() {
            // The elements of a member with weight 0 are not part of the sum, and the agent writes only sums to the
            // segment. So the other members' elements can stay where they are.
            let weight = u32::from(regroup.leader == self.rank());
            let operation = Operation { weight, ..operation.clone() };
            match self.start_for(segment, &operation, regroup.generation)?.await {
                Ok(_) => {
                    self.membership().synchronised(regroup.generation);
                    return Ok(Some(regroup));
                }
                // Further members have joined, or the leader has left.
                Err(ClientError::Regroup(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
