//! The request for a plan of a job.

use serde::{Deserialize, Serialize};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::{Downlink, SliceWidth};

/// Which switches may aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// Every switch of the tree that can.
    Tree,
    /// Only switches that a worker of the job is linked to.
    Leaf,
    /// Switches that a worker is linked to, and those one link further.
    #[serde(rename = "two-levels")]
    TwoLevels,
    /// None: every gradient travels to the server on its own.
    None,
}

impl Aggregation {
    /// The most links that a switch that may aggregate is above the nearest worker below it.
    pub fn levels(self) -> usize {
        match self {
            Self::Tree => usize::MAX,
            Self::Leaf => 1,
            Self::TwoLevels => 2,
            Self::None => 0,
        }
    }
}

/// The names of a [`Downlink`] for serde: `#[serde(with = "DownlinkName")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Downlink", rename_all = "lowercase")]
pub enum DownlinkName {
    /// The server sends one packet, and the switches copy it.
    Multicast,
    /// The server sends each worker its own copy.
    Unicast,
}

/// A worker of a job: a host that trains, and its rank. Neither changes when other workers leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its rank: unique in the job, and less than 65535, which stands for everyone.
    pub rank: u16,
    /// Its host.
    pub host: NodeKey,
}

impl Member {
    /// The workers of a new job, ranked from 0 in the order of the hosts, up to the highest possible rank.
    pub fn ranked(hosts: impl IntoIterator<Item = NodeKey>) -> Vec<Self> {
        (0..=u16::MAX).zip(hosts).map(|(rank, host)| Self { rank, host }).collect()
    }
}

/// A job to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRequest {
    /// The workers, by rising rank. Ranks may be missing.
    pub workers: Vec<Member>,
    /// The host that finishes the sums.
    pub server: NodeKey,
    /// Which switches may aggregate.
    pub aggregation: Aggregation,
    /// The requested delivery of results. A plan falls back to unicast if a switch cannot multicast them.
    pub downlink: Downlink,
    /// Number of values that a slice has.
    pub width: SliceWidth,
    /// The job's window S, in slices: the slots it takes on every switch that aggregates. A power of two.
    pub window: u32,
    /// The bytes of one worker's gradient, 4 a value, for the expected bytes and times.
    pub gradient_bytes: u64,
}

impl JobRequest {
    /// The job that the topology file describes: all its workers and its first server, aggregation on the
    /// whole tree, results by multicast, and slices as wide as all links allow. `None` only for a topology without a
    /// server, which no file can give.
    pub fn of(topology: &Topology, window: u32, gradient_bytes: u64) -> Option<Self> {
        let job = Self {
            workers: Member::ranked(topology.workers()),
            server: *topology.servers().first()?,
            aggregation: Aggregation::Tree,
            downlink: Downlink::Multicast,
            width: SliceWidth::NARROWEST,
            window,
            gradient_bytes,
        };
        Some(job.with_widest_slices(topology, SliceWidth::WIDEST))
    }

    /// The workers' hosts, by rank.
    pub(crate) fn hosts(&self) -> Vec<NodeKey> {
        self.workers.iter().map(|worker| worker.host).collect()
    }
}
