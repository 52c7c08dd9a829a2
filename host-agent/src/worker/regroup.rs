//! Members that join a running job.
//!
//! The agents notify all members of them between the same two operations, so that all members see the same change: the
//! agent answers a process's next all-reduce with a [`Regroup`] unless that all-reduce synchronises for the joiners.
//! From that all-reduce on, the job continues as usual. If the leader was lost meanwhile, no member led the all-reduce
//! and it had no effect; all members recognise this from the weight of its result.

use std::sync::Arc;

use tributary_api::JobConfig;
use tributary_protocol::Reduced;
use tributary_wire::Rank;

use super::Members;

/// Members have joined since the last all-reduce, or the members' share of the data has changed: before
/// the next all-reduce all members take over the leader's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation of the change.
    pub generation: u32,
    /// Ranks of all members in that generation, ascending; some may be lost since.
    pub ranks: Vec<Rank>,
    /// The ranks that are new.
    pub joined: Vec<Rank>,
    /// The lowest rank that was a member before; if none is left, the lowest of all.
    pub leader: Rank,
    /// Ranks whose data the members process from now on, ascending.
    pub shards: Vec<Rank>,
}

/// The joiners of one generation, perhaps none, until everyone has synchronised for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) generation: u32,
    ranks: Vec<Rank>,
    /// All members of that generation.
    /// Not of the present one: members may ask in different generations, and all have to get the same answer.
    members: Arc<Members>,
}

impl Joined {
    /// Returns `None` if no member has to synchronise for that generation.
    pub(super) fn new(config: &JobConfig, members: &Arc<Members>) -> Option<Self> {
        let JobConfig { generation, joined, regroup, .. } = config;
        let (generation, ranks, members) = (*generation, joined.clone(), Arc::clone(members));
        (*regroup || !joined.is_empty()).then_some(Self { generation, ranks, members })
    }

    /// The answer to the process; the leader is one of the `present` members.
    pub(super) fn regroup(&self, present: &Members) -> Regroup {
        let is_new = |rank: &&Rank| self.ranks.contains(rank);
        let leader = present.ranks.iter().find(|rank| !is_new(rank)).or(present.ranks.first());
        Regroup {
            generation: self.generation,
            ranks: self.members.ranks.clone(),
            joined: self.ranks.clone(),
            // There is always a member.
            leader: leader.copied().unwrap_or(Rank::ALL),
            shards: self.members.shards.clone(),
        }
    }
}

/// Returns true if all elements have come from a leader.
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
        // Rank 1 has joined, too, and is lost again: all get the same answer, whenever they ask.
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
