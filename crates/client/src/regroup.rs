//! Members that join a running job, or leave it for a while.

use tributary_api::agent::v1;

/// Members have joined, or the members' share of the data has changed.
/// Before the next all-reduce, all members must [synchronise](crate::Job::synchronise). The agents notify all of them
/// at the same place in the order of their all-reduces, so that they can agree without further messages on the data
/// that each of them processes from there on.
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
    /// Ranks whose data the members process from now on, ascending: their own, and those of processes that
    /// are [detached](Detached) because they are slow, if the others share their data.
    pub shards: Vec<u32>,
}

/// The job continues without this process for now, since it is much slower than the others.
///
/// It stays in the job, and should go on making steps as if nothing had happened: their times show when the process has
/// recovered. Until then each of its all-reduces ends with this at once. Then it receives [`Regroup`], as all other
/// processes do, and takes part again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The generation from which on it is not a member.
    pub generation: u32,
    /// True if the other members process its data, too; otherwise the data is left out.
    pub data_adopted: bool,
    /// The reason, as text.
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
