//! One version of a job's structure: its members, its server, its tree.

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
    /// Its data-plane id, unique to this generation.
    pub(crate) job: JobId,
    /// Its tree; the workers in it are its members.
    pub(crate) plan: Plan,
    /// Ranks that were not in the generation before.
    pub(crate) joined: Vec<Rank>,
    /// Whether its members synchronise before they reduce again: somebody has joined, or the members' share of the
    /// data has changed.
    pub(crate) regroup: bool,
    /// Workers that are left out for as long as their processes are degraded.
    pub(crate) detachment: Detachment,
    /// Where joining members begin.
    pub(crate) beginning: Beginning,
    /// The switches that may have tables of it, with its slots on those that aggregate. Shrinks when it is retired, switch
    /// by switch, as its tables are withdrawn.
    pub(crate) switches: BTreeMap<NodeKey, Option<SlotBlock>>,
    /// Places where less is aggregated in the network than could be.
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) stage: Stage,
}

/// Where a member that comes into a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Its first slice.
    pub(crate) seq: Seq,
    /// Operations that the job had begun before.
    pub(crate) begun: u64,
}

impl Beginning {
    /// The beginning of a job.
    pub(crate) const OF_JOB: Self = Self { seq: Seq::FIRST, begun: 0 };
}

/// How far a generation is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has its slots, but no tables.
    Reserved,
    /// Its tables belong in the switches.
    Installed,
    /// Its tables are to be withdrawn; until they are, nobody else gets its slots.
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
