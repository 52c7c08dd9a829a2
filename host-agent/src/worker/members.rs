//! The members of one generation of a job.

use std::collections::BTreeMap;

use tributary_api::{JobConfig, ProcessCounts};
use tributary_wire::Rank;

/// The members of one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The generation's number.
    pub generation: u32,
    /// Ranks of the members, ascending.
    pub ranks: Vec<Rank>,
    /// Ranks whose data the members process, ascending: the members' own ranks and the ranks whose data
    /// they have adopted.
    pub shards: Vec<Rank>,
    /// Ranks that have left the job while this worker was a member, with the reasons.
    pub lost: BTreeMap<Rank, String>,
    /// The number of training processes of each worker.
    pub processes: ProcessCounts,
}

impl Members {
    /// Returns the members of a generation. `before` are the members of the previous generation.
    pub(super) fn new(config: &JobConfig, before: Option<&Self>) -> Self {
        let mut shards = [config.ranks.as_slice(), &config.adopted].concat();
        shards.sort_unstable();
        let mut lost = before.map(|before| before.lost.clone()).unwrap_or_default();
        lost.extend(
            before.iter().flat_map(|before| &before.ranks).map(|rank| (*rank, config.reason.clone())),
        );
        lost.retain(|rank, _| !config.ranks.contains(rank));
        let (generation, ranks, processes) =
            (config.generation, config.ranks.clone(), config.processes.clone());
        Self { generation, ranks, shards, lost, processes }
    }
}
