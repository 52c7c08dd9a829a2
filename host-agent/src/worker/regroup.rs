//! Members who join while a job is running.
//!
//! All members are told of them between the same two operations, so that each of them finds the same: the next all-reduce
//! of a process is answered with a [`Regroup`] unless it synchronises for these. From where that all-reduce begins, all
//! go on as usual. If it turns out that nobody led it, because the leader was lost meanwhile, it was for nothing, which
//! again all members see alike: in the weight of its result.

use tributary_protocol::Reduced;
use tributary_wire::Rank;

use super::Members;

/// Members have joined since the last all-reduce: before the next one all of them take over the leader's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regroup {
    /// The generation in which they came.
    pub generation: u32,
    /// Ranks of all members, ascending.
    pub ranks: Vec<Rank>,
    /// Those of them that are new.
    pub joined: Vec<Rank>,
    /// The lowest rank that was in before; if none is left, the lowest one of all.
    pub leader: Rank,
}

/// Those who have joined in one generation, until everyone has synchronised for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) generation: u32,
    ranks: Vec<Rank>,
}

impl Joined {
    /// `None` if nobody has joined in that generation.
    pub(super) fn new(generation: u32, ranks: &[Rank]) -> Option<Self> {
        (!ranks.is_empty()).then(|| Self { generation, ranks: ranks.to_vec() })
    }

    /// What the process is told, given who is in now.
    pub(super) fn regroup(&self, members: &Members) -> Regroup {
        let is_new = |rank: &&Rank| self.ranks.contains(rank);
        let ranks = &members.ranks;
        let leader = ranks.iter().find(|rank| !is_new(rank)).or(ranks.first());
        Regroup {
            generation: self.generation,
            ranks: ranks.clone(),
            joined: ranks.iter().filter(is_new).copied().collect(),
            // A job has members.
            leader: leader.copied().unwrap_or(Rank::ALL),
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

    use super::*;

    fn ranks(numbers: &[u16]) -> Vec<Rank> {
        numbers.iter().copied().map(Rank::new).collect()
    }

    #[test]
    fn the_lowest_rank_that_was_in_before_leads_and_without_one_the_lowest() {
        let regroup = |joined: &[u16], present: &[u16]| {
            let members = Members { generation: 7, ranks: ranks(present) };
            Joined::new(5, &ranks(joined)).unwrap().regroup(&members)
        };
        let expected =
            Regroup { generation: 5, ranks: ranks(&[0, 2, 3]), joined: ranks(&[0]), leader: Rank::new(2) };
        // Rank 1 has joined, too, and is lost again.
        assert_eq!(regroup(&[0, 1], &[0, 2, 3]), expected);
        assert_eq!(regroup(&[0, 2], &[0, 2]).leader, Rank::new(0));
        assert_eq!(Joined::new(1, &[]), None);
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
