//! One version of a job's structure: its members, its server and its tree.

use std::collections::BTreeMap;

use tributary_planner::Plan;
use tributary_topology::NodeKey;
use tributary_wire::{JobId, Rank, Seq};

use super::detachment::Detachment;
use crate::fallback::Fallback;
use crate::slots::SlotBlock;

/// The number of a job in the order of creation. Numbers are never reused.
pub(crate) type JobKey = u64;

/// Identifies one generation of one job.
pub(crate) type GenerationKey = (JobKey, u32);

/// A generation of a job.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// Counts the job's generations from 1.
    pub(crate) number: u32,
    /// The data-plane job id, unique to this generation.
    pub(crate) job: JobId,
    /// The tree. The workers in it are the members of the generation.
    pub(crate) plan: Plan,
    /// Ranks that were not members of the generation before this one.
    pub(crate) joined: Vec<Rank>,
    /// True if the members synchronise before the next all-reduce.
    /// That is necessary if a worker has joined or the distribution of the data has changed.
    pub(crate) regroup: bool,
    /// Workers that are left out for as long as their processes are degraded.
    pub(crate) detachment: Detachment,
    /// The position at which joining members begin.
    pub(crate) beginning: Beginning,
    /// The switches that may have tables of the generation, with the generation's slots on switches that
    /// aggregate.
    /// After the generation is retired, the controller removes a switch from this map when it has withdrawn the
    /// switch's tables.
    pub(crate) switches: BTreeMap<NodeKey, Option<SlotBlock>>,
    /// Places where the generation could be aggregated in the network but is not.
    pub(crate) fallbacks: Vec<Fallback>,
    pub(crate) stage: Stage,
}

/// The position at which a joining member begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// The first slice of the member in each stripe; empty for the first slices of the job.
    pub(crate) seqs: Vec<Seq>,
    /// The number of operations that the job has begun before these slices.
    pub(crate) begun: u64,
}

impl Beginning {
    /// The position at which all members of a new job begin.
    pub(crate) const OF_JOB: Self = Self { seqs: Vec::new(), begun: 0 };
}

/// The stage of a generation's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The generation has its slots, but no tables.
    Reserved,
    /// The generation's tables belong in the switches.
    Installed,
    /// The controller must withdraw the tables. Until it has done so, no other generation gets the slots.
    Retired,
}

impl Generation {
    /// Returns the ranks of the generation's workers, ascending.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.plan.workers.iter().map(|worker| Rank::new(worker.rank))
    }

    /// Returns true if the worker is a member of the generation.
    pub(crate) fn has(&self, rank: Rank) -> bool {
        self.ranks().any(|member| member == rank)
    }
}
