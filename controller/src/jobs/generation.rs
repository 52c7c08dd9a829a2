//! One version of a job's structure: who is in, who serves, which tree.

use std::collections::BTreeMap;

use tributary_planner::Plan;
use tributary_topology::NodeKey;
use tributary_wire::{JobId, Rank, Seq};

use super::detachment::Detachment;
use crate::fallback::Fallback;
use crate::tables::admission::SlotBlock;

/// A generation of a job.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// Counts the job's generations from 1.
    pub(crate) number: u32,
    /// Its data-plane id, which no other generation has.
    pub(crate) job: JobId,
    /// Its tree; the workers in it are its members.
    pub(crate) plan: Plan,
    /// Ranks that were not in the generation before.
    pub(crate) joined: Vec<Rank>,
    /// Its members synchronise before they reduce again: somebody has joined, or whose data they process has changed.
    pub(crate) regroup: bool,
    /// Who is not in for as long as its process is degraded.
    pub(crate) detachment: Detachment,
    /// Where those begin.
    pub(crate) beginning: Beginning,
    /// The switches that may have tables of it, with its slots on those that aggregate. Shrinks when it is retired, switch
    /// by switch, as its tables are withdrawn.
    pub(crate) switches: BTreeMap<NodeKey, Option<SlotBlock>>,
    /// Where less is aggregated in the network than could be.
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) stage: Stage,
}

/// Where a member begins that comes into a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Its first slice.
    pub(crate) seq: Seq,
    /// Operations that the job had begun before.
    pub(crate) begun: u64,
}

impl Beginning {
    /// That of a job.
    pub(crate) const OF_JOB: Self = Self { seq: Seq::FIRST, begun: 0 };
}

/// How far a generation is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has its slots, and no tables.
    Reserved,
    /// Its tables belong in the switches.
    Installed,
    /// Its tables are to go; its slots are nobody's until they have.
    Retired,
}

impl Generation {
    /// The ranks of its workers, ascending.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.plan.workers.iter().map(|worker| Rank::new(worker.rank))
    }

    /// Whether the worker is in.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.ranks().any(|member| member == rank)
    }
}
