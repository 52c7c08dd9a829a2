//! Orders to members after a member has joined, or while the job continues without a slow process.

use tributary_api::agent::v1;

/// An order to synchronise, because members have joined or the members' share of the data has
/// changed. Before the next all-reduce, all members must [synchronise](crate::Job::synchronise). The agents notify all
/// members at the same place in the order of their all-reduces. The members can therefore agree, without further
/// messages, on the data that each of them processes from there on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation of the change.
    pub generation: u32,
    /// Ranks of all members in that generation, ascending. Some of them may have left since.
    pub ranks: Vec<u32>,
    /// Ranks of the members that have joined.
    pub joined: Vec<u32>,
    /// The rank whose parameters all members take over: the lowest rank that was already a member before.
    pub leader: u32,
    /// Ranks whose data the members process from now on, ascending: the members' own ranks, and the ranks
    /// of [detached](Detached) processes if the members share their data.
    pub shards: Vec<u32>,
}

/// The state of a process without which the job continues, because it is much slower than the other
/// processes.
///
/// The process stays in the job and should continue to make steps as usual, because their times show when it has
/// recovered. Until then, each of its all-reduces ends immediately with this state. After the recovery, it receives a
/// [`Regroup`], as all other processes do, and takes part again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// The first generation of which the process is not a member.
    pub generation: u32,
    /// True if the other members also process its data; false if its data is left out.
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
