//! The request for a plan of a job.

use serde::{Deserialize, Serialize};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::{Downlink, SliceWidth};

/// The switches that may aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// Every switch of the tree that can aggregate.
    Tree,
    /// Only switches to which a worker of the job is linked.
    Leaf,
    /// Switches to which a worker is linked, and switches one link further.
    #[serde(rename = "two-levels")]
    TwoLevels,
    /// No switch: every gradient travels to the server separately.
    None,
}

impl Aggregation {
    /// Returns the maximum distance, in links, of an aggregating switch from the nearest worker below it.
    pub fn levels(self) -> usize {
        match self {
            Self::Tree => usize::MAX,
            Self::Leaf => 1,
            Self::TwoLevels => 2,
            Self::None => 0,
        }
    }
}

/// The serde names of a [`Downlink`]: `#[serde(with = "DownlinkName")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Downlink", rename_all = "lowercase")]
pub enum DownlinkName {
    /// The server sends one packet, and the switches copy it.
    Multicast,
    /// The server sends each worker its own copy.
    Unicast,
}

/// A worker of a job: a host that trains, and its rank. They do not change when other workers leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The worker's rank. It is unique in the job, and less than 65535, which addresses all workers.
    pub rank: u16,
    /// The worker's host.
    pub host: NodeKey,
}

impl Member {
    /// Makes the workers of a new job, with ranks from 0 in the order of the hosts.
    /// Hosts beyond the highest rank are left out.
    pub fn ranked(hosts: impl IntoIterator<Item = NodeKey>) -> Vec<Self> {
        (0..=u16::MAX).zip(hosts).map(|(rank, host)| Self { rank, host }).collect()
    }
}

/// A job to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRequest {
    /// The workers, by rising rank. Ranks need not be consecutive.
    pub workers: Vec<Member>,
    /// The host that finishes the sums.
    pub server: NodeKey,
    /// The switches that may aggregate.
    pub aggregation: Aggregation,
    /// The requested delivery of results. A plan falls back to unicast if a switch cannot multicast them.
    pub downlink: Downlink,
    /// The number of values in a slice.
    pub width: SliceWidth,
    /// The job's window S in slices, a power of two. The job takes S slots on every switch that aggregates.
    pub window: u32,
    /// The size of one worker's gradient in bytes, 4 for each value. Expected bytes and times depend on it.
    pub gradient_bytes: u64,
}

impl JobRequest {
    /// Makes the job that the topology file describes.
    /// It has all workers and the first server of the topology, aggregation on the whole tree, results by multicast,
    /// and slices as wide as [all links allow](Self::with_widest_slices). `None` for a topology without a server, which
    /// no file can give.
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

    /// Returns the workers' hosts, by rank.
    pub(crate) fn hosts(&self) -> Vec<NodeKey> {
        self.workers.iter().map(|worker| worker.host).collect()
    }
}
