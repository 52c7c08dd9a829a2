//! What is worth keeping of a job.

use std::collections::BTreeMap;

use tributary_planner::Plan;
use tributary_topology::NodeKey;
use tributary_wire::JobId;

use crate::tables::admission::SlotBlock;
use crate::token::Token;

/// All of a job but who is connected right now.
#[derive(Debug, Clone)]
pub(crate) struct JobRecord {
    pub(crate) name: String,
    pub(crate) token: Token,
    pub(crate) plan: Plan,
    /// Its data-plane id.
    pub(crate) job: JobId,
    /// Where its counters are in every switch. Still true when the index is no longer its own to hold: its
    /// counters stay until another job gets the index.
    pub(crate) job_index: u16,
    pub(crate) resources: Resources,
}

/// What a job holds; it shrinks only when the job is over, switch by switch, as its tables are withdrawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// The switches that may have tables of the job, with its slots on those that add up.
    pub(crate) switches: BTreeMap<NodeKey, Option<SlotBlock>>,
    /// Its place among the counters.
    pub(crate) job_index: Option<u16>,
}

impl Resources {
    /// Nothing of the job is in any switch.
    pub(crate) fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.job_index.is_none()
    }
}

impl JobRecord {
    /// Its members' hosts: workers by rank, then the server.
    pub(crate) fn members(&self) -> impl Iterator<Item = &str> {
        let workers = self.plan.workers.iter().map(|worker| worker.name.as_str());
        workers.chain([self.plan.server.name.as_str()])
    }
}
