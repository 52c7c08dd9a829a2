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
    /// The rank whose parameters count: the lowest one that has synchronised with the others before.
    /// If there is none, it is the lowest of those that have been members for the longest time.
    pub leader: Rank,
    /// Ranks whose data the members process after the change, ascending.
    pub shards: Vec<Rank>,
}

/// The joiners of one generation (possibly none), until all members have synchronised with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) generation: u32,
    ranks: Vec<Rank>,
    /// The joiners of earlier generations with which the members have not synchronised, oldest first.
    earlier: Vec<Vec<Rank>>,
    /// All members of that generation, not of the present one. Members may request an all-reduce in
    /// different generations, and all must get the same answer.
    members: Arc<Members>,
}

impl Joined {
    /// Returns `None` if the members need not synchronise for that generation.
    pub(super) fn new(config: &JobConfig, members: &Arc<Members>) -> Option<Self> {
        let JobConfig { generation, joined, regroup, .. } = config;
        let (generation, ranks, members) = (*generation, joined.clone(), Arc::clone(members));
        let earlier = Vec::new();
        (*regroup || !joined.is_empty()).then_some(Self { generation, ranks, earlier, members })
    }

    /// Adds the joiners of an earlier generation with which the members have not synchronised.
    pub(super) fn with_earlier(mut self, earlier: Self) -> Self {
        self.earlier = earlier.earlier.into_iter().chain([earlier.ranks]).collect();
        self
    }

    /// Returns the answer to the process. The leader is one of the `present` members.
    pub(super) fn regroup(&self, present: &Members) -> Regroup {
        // All members that may lead take the same rank for the leader: a member that has synchronised knows all joiners, and
        // a joiner knows those of its own generation and of later ones. So no joiner takes itself for the leader while an
        // earlier member is present.
        let waiting: Vec<&Vec<Rank>> = self.earlier.iter().chain([&self.ranks]).collect();
        let in_step = present.ranks.iter().find(|rank| !waiting.iter().any(|ranks| ranks.contains(rank)));
        let oldest =
            || waiting.iter().find_map(|ranks| present.ranks.iter().find(|rank| ranks.contains(rank)));
        let leader = in_step.or_else(oldest);
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
            let earlier = Vec::new();
            Joined { generation: 5, ranks: ranks(joined), earlier, members: then }
                .regroup(&members(7, present))
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
    fn a_joiner_that_has_not_synchronised_does_not_lead_when_another_joins() {
        let members = |present: &[u16]| {
            let (lost, processes) = (BTreeMap::new(), ProcessCounts::default());
            Arc::new(Members { generation: 5, ranks: ranks(present), shards: Vec::new(), lost, processes })
        };
        let joined = |joined: &[u16]| {
            let (ranks, earlier) = (ranks(joined), Vec::new());
            Joined { generation: 5, ranks, earlier, members: members(&[0, 1, 2, 3]) }
        };
        let leader = |view: &Joined, present: &[u16]| view.regroup(&members(present)).leader.get();
        // Rank 1 has joined, and then rank 0, before the members have synchronised. Ranks 1 to 3 know both joiners.
        let (of_older, of_joiner) = (joined(&[0]).with_earlier(joined(&[1])), joined(&[0]));
        assert_eq!(leader(&of_older, &[0, 1, 2, 3]), 2);
        assert_ne!(leader(&of_joiner, &[0, 1, 2, 3]), 0);
        // All others are gone: both take rank 1 for the leader.
        assert_eq!((leader(&of_older, &[0, 1]), leader(&of_joiner, &[0, 1])), (1, 1));
        // Rank 2 has joined before both, and knows all; the others know of later joiners only.
        let of_oldest = joined(&[0]).with_earlier(joined(&[1]).with_earlier(joined(&[2])));
        assert_eq!(leader(&of_oldest, &[0, 1, 2]), 2);
        assert_eq!(leader(&of_older, &[0, 1, 2]), 2);
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
