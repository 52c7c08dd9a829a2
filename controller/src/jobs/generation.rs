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
    /// True if the members synchronise before they reduce again, because a worker has joined or because the
    /// members' share of the data has changed.
    pub(crate) regroup: bool,
    /// Workers that are left out for as long as their processes are degraded.
    pub(crate) detachment: Detachment,
    /// Where joining members begin.
    pub(crate) beginning: Beginning,
    /// The switches that may have tables of the generation, with its slots on those that aggregate.
    /// Once the generation is retired, a switch is removed from this map when its tables are withdrawn.
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

/// The stage of a generation's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The generation has its slots, but no tables.
    Reserved,
    /// The tables of the generation belong in the switches.
    Installed,
    /// The controller must withdraw the tables. Until then, no other generation gets the slots.
    Retired,
}

impl Generation {
    /// The ranks of its workers, ascending.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.plan.workers.iter().map(|worker| Rank::new(worker.rank))
    }

    /// Returns true if the worker is a member of the generation.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.ranks().any(|member| member == rank)
    }
}
