//! Members that join a running job, or leave it for a while.

use std::ops::Range;

use tributary_api::agent::v1;

use crate::error::ClientError;
use crate::job::Job;
use crate::operation::Operation;
use crate::segment::Segment;

/// Members have joined, or the members' share of the data has changed: before the next all-reduce all members have to
/// [synchronise](Job::synchronise). All of them are told at the same place in the order of their all-reduces, so that
/// they can agree without further messages on who processes what from there on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation of the change.
    pub generation: u32,
    /// Ranks of all members in that generation, ascending; some may be lost since.
    pub ranks: Vec<u32>,
    /// The ranks that are new.
    pub joined: Vec<u32>,
    /// The rank whose parameters all members take over: the lowest that was a member before.
    pub leader: u32,
    /// Ranks whose data the members process from now on, ascending: their own, and those of processes that are
    /// [detached](Detached) because they are slow, if the others share their data.
    pub shards: Vec<u32>,
}

/// The job goes on without this process for now, since it is much slower than the others.
///
/// It stays in the job, and should go on making steps as if nothing had happened: their times show when it is well
/// again. Until then each of its all-reduces ends with this at once. Then it is told [`Regroup`], as all others are,
/// and takes part again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The generation from which on it is not a member.
    pub generation: u32,
    /// Whether the others process its data, too; otherwise nobody does.
    pub data_adopted: bool,
    /// The reason, in words.
    pub reason: String,
}

impl From<v1::Detached> for Detached {
    fn from(v1::Detached { generation, data_adopted, reason }: v1::Detached) -> Self {
        Self { generation, data_adopted, reason }
    }
}

impl From<v1::Regroup> for Regroup {
    fn from(v1::Regroup { generation, ranks, joined, leader, shards }: v1::Regroup) -> Self {
        Self { generation, ranks, joined, leader, shards }
    }
}

impl Job {
    /// What the members have to synchronise for before they reduce again. Set for a process that has joined a running
    /// job, and after an all-reduce has ended with [`ClientError::Regroup`].
    pub fn regroup(&self) -> Option<Regroup> {
        self.membership().to_synchronise_for()
    }

    /// Replaces the elements that `operation` names by the leader's, on all members alike: the same bits everywhere.
    /// This is one all-reduce, to which the leader contributes its elements and everyone else nothing; the operation's
    /// weight is ignored. Everything that has to be the same on all members is best put into one segment. Without a
    /// [`regroup`](Self::regroup) it does nothing. Returns what it has synchronised for, which is the same on all
    /// members.
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
