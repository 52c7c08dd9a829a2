//! Members that join a running job.
//!
//! The agents notify their processes of the joiners between the same two operations, so that all members see the same
//! change. An agent answers its process's next all-reduce with a [`Regroup`], unless that all-reduce synchronises with
//! the joiners. After the synchronising all-reduce, the job continues as usual. If the leader was lost in the meantime,
//! no member led the all-reduce, and it had no effect. All members recognise this from the weight of its result.

use std::sync::Arc;

use tributary_api::JobConfig;
use tributary_protocol::Reduced;
use tributary_wire::Rank;

use super::members::Members;

/// An order to synchronise. Members have joined since the last all-reduce, or the members' share of
/// the data has changed. Before the next all-reduce, all members must take over the leader's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation of the change.
    pub generation: u32,
    /// Ranks of all members in that generation, ascending. Some of them may have left since.
    pub ranks: Vec<Rank>,
    /// Ranks of the members that have joined.
    pub joined: Vec<Rank>,
    /// The lowest rank that was already a member before the change; if there is none, the lowest rank of
    /// all.
    pub leader: Rank,
    /// Ranks whose data the members process after the change, ascending.
    pub shards: Vec<Rank>,
}

/// The joiners of one generation (possibly none), until all members have synchronised with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) generation: u32,
    ranks: Vec<Rank>,
    /// All members of that generation, not of the present one. Members may request an all-reduce in
    /// different generations, and all must get the same answer.
    members: Arc<Members>,
}

impl Joined {
    /// Returns `None` if the members need not synchronise for that generation.
    pub(super) fn new(config: &JobConfig, members: &Arc<Members>) -> Option<Self> {
        let JobConfig { generation, joined, regroup, .. } = config;
        let (generation, ranks, members) = (*generation, joined.clone(), Arc::clone(members));
        (*regroup || !joined.is_empty()).then_some(Self { generation, ranks, members })
    }

    /// Returns the answer to the process. The leader is one of the `present` members.
    pub(super) fn regroup(&self, present: &Members) -> Regroup {
        let is_new = |rank: &&Rank| self.ranks.contains(rank);
        let leader = present.ranks.iter().find(|rank| !is_new(rank)).or(present.ranks.first());
        Regroup {
            generation: self.generation,
            ranks: self.members.ranks.clone(),
            joined: self.ranks.clone(),
            // A job always has a member, so the default is never used.
            leader: leader.copied().unwrap_or(Rank::ALL),
            shards: self.members.shards.clone(),
        }
    }
}

/// Returns true if a leader has contributed all elements.
pub(super) fn is_led(synchronised: &Reduced) -> bool {
    synchronised.weight > 0 && synchronised.runs.iter().all(|run| run.weight > 0)
}

#[cfg(test)]
mod tests {
    use tributary_api::ProcessCounts;
    use tributary_protocol::{Run, Sums};

    use std::collections::BTreeMap;

    use super::*;

    fn ranks(numbers: &[u16]) -> Vec<Rank> {
        numbers.iter().copied().map(Rank::new).collect()
    }

    #[test]
    fn the_lowest_rank_that_was_in_before_leads_and_without_one_the_lowest() {
        let members = |generation, present: &[u16]| {
            let shards = ranks(&[0, 1, 2, 3, 4]);
            let (lost, processes) = (BTreeMap::new(), ProcessCounts::default());
            Members { generation, ranks: ranks(present), shards, lost, processes }
        };
        let regroup = |joined: &[u16], present: &[u16]| {
            let then = Arc::new(members(5, &[0, 1, 2, 3]));
            Joined { generation: 5, ranks: ranks(joined), members: then }.regroup(&members(7, present))
        };
        let expected = Regroup {
            generation: 5,
            ranks: ranks(&[0, 1, 2, 3]),
            joined: ranks(&[0, 1]),
            leader: Rank::new(2),
            shards: ranks(&[0, 1, 2, 3, 4]),
        };
        // Rank 1 has also joined, and has left again. All members get the same answer at any time.
        assert_eq!(regroup(&[0, 1], &[0, 2, 3]), expected);
        assert_eq!(regroup(&[0, 2], &[0, 2]).leader, Rank::new(0));
        assert_eq!(regroup(&[], &[2, 3]).leader, Rank::new(2), "nobody has joined");
    }

    #[test]
    fn a_stretch_without_weight_has_no_leader() {
        let reduced = |weight, runs: &[u32]| {
            let run = |weight: &u32| Run { len: 1, weight: *weight, contributors: 3, complete: 3 };
            let runs = runs.iter().map(run).collect();
            Reduced { sums: Sums::F32(Vec::new()), weight, contributors: 3, runs, not_finite: None }
        };
        assert!(is_led(&reduced(1, &[1, 1])));
        assert!(!is_led(&reduced(1, &[1, 0])), "the leader left in the middle of it");
        assert!(!is_led(&reduced(0, &[])));
    }
}
