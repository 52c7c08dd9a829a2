//! Members who join while a job is running.
//!
//! All members are told of them between the same two operations, so that each of them finds the same: the next all-reduce
//! of a process is answered with a [`Regroup`] unless it synchronises for these. From where that all-reduce begins, all
//! go on as usual. If it turns out that nobody led it, because the leader was lost meanwhile, it was for nothing, which
//! again all members see alike: in the weight of its result.

use std::sync::Arc;

use tributary_api::JobConfig;
use tributary_protocol::Reduced;
use tributary_wire::Rank;

use super::Members;

/// Members have joined since the last all-reduce, or whose data they process has changed: before the next one all of them
/// take over the leader's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation in which they came.
    pub generation: u32,
    /// Ranks of all members in that generation, ascending: some may be lost since.
    pub ranks: Vec<Rank>,
    /// Those of them that are new.
    pub joined: Vec<Rank>,
    /// The lowest rank that was in before; if none is left, the lowest one of all.
    pub leader: Rank,
    /// Ranks whose data the members process from now on, ascending.
    pub shards: Vec<Rank>,
}

/// Those who have joined in one generation, maybe nobody, until everyone has synchronised for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) generation: u32,
    ranks: Vec<Rank>,
    /// All members of that generation: not of the present one, since that one can be another for each member when it
    /// asks, and all have to be told the same.
    members: Arc<Members>,
}

impl Joined {
    /// `None` if nobody has to synchronise for that generation.
    pub(super) fn new(config: &JobConfig, members: &Arc<Members>) -> Option<Self> {
        let JobConfig { generation, joined, regroup, .. } = config;
        let (generation, ranks, members) = (*generation, joined.clone(), Arc::clone(members));
        (*regroup || !joined.is_empty()).then_some(Self { generation, ranks, members })
    }

    /// What the process is told, given who is in now: one of those leads.
    pub(super) fn regroup(&self, present: &Members) -> Regroup {
        let is_new = |rank: &&Rank| self.ranks.contains(rank);
        let leader = present.ranks.iter().find(|rank| !is_new(rank)).or(present.ranks.first());
        Regroup {
            generation: self.generation,
            ranks: self.members.ranks.clone(),
            joined: self.ranks.clone(),
            // A job has members.
            leader: leader.copied().unwrap_or(Rank::ALL),
            shards: self.members.shards.clone(),
        }
    }
}

/// Whether all of the elements have come from a leader.
pub(super) fn is_led(synchronised: &Reduced) -> bool {
    synchronised.weight > 0 && synchronised.runs.iter().all(|run| run.weight > 0)
}

#[cfg(test)]
mod tests {
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
            Members { generation, ranks: ranks(present), shards, lost: BTreeMap::new() }
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
        // Rank 1 has joined, too, and is lost again: all are told alike, whenever they ask.
        assert_eq!(regroup(&[0, 1], &[0, 2, 3]), expected);
        assert_eq!(regroup(&[0, 2], &[0, 2]).leader, Rank::new(0));
        assert_eq!(regroup(&[], &[2, 3]).leader, Rank::new(2), "nobody has joined");
    }

    #[test]
    fn a_stretch_without_weight_has_no_leader() {
        let reduced = |weight, runs: &[u32]| {
            let run = |weight: &u32| Run { len: 1, weight: *weight, contributors: 3 };
            let runs = runs.iter().map(run).collect();
            Reduced { sums: Sums::F32(Vec::new()), weight, contributors: 3, runs }
        };
        assert!(is_led(&reduced(1, &[1, 1])));
        assert!(!is_led(&reduced(1, &[1, 0])), "the leader left in the middle of it");
        assert!(!is_led(&reduced(0, &[])));
    }
}
