//! The configuration of a job's member, in the types of the packets.

use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::ops::Range;
use std::time::Duration;

use tributary_wire::{
    Downlink, Hop, JobId, JobSecret, MacAddr, NodeId, Operator, Rank, Seq, SliceWidth, Totals,
};

use crate::error::ConfigError;

/// The configuration with which a worker or a server takes part in one generation of a job.
///
/// The controller creates it as a literal. An agent creates it with `JobConfig::try_from(v1::JobConfig)`, which checks
/// all conditions in the comments of the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// The job's name.
    pub name: String,
    /// The data-plane job id of the generation.
    pub job: JobId,
    /// The number of values in a slice: V in `docs/specification.md`.
    pub width: SliceWidth,
    /// The maximum number of slices in flight, S in `docs/specification.md`. It is a power of two.
    pub window: u32,
    /// The number of the generation, from 1.
    pub generation: u32,
    /// For each stripe, the member's first slice. The number of stripes is a power of two.
    /// It is the first slice of the job. For a member that joins later, it is the first slice of the member's first
    /// operation.
    pub start_seqs: Vec<Seq>,
    /// The number of operations that the job had begun before these slices.
    pub begun: u64,
    /// The delivery of results to the workers.
    pub downlink: Downlink,
    /// The time that one slice takes on the slowest link of the job's tree; zero if it is unknown.
    pub slice_time: Duration,
    /// The number of switches that add the job's gradients.
    pub switches: u32,
    /// The ranks of all workers: ascending, at least one, never [`Rank::ALL`].
    pub ranks: Vec<Rank>,
    /// Ranks that were not members of the generation before this one, ascending; empty in the first
    /// generation.
    pub joined: Vec<Rank>,
    /// True if the members synchronise before the next all-reduce.
    /// That is necessary if a worker has joined or the distribution of the data has changed.
    pub regroup: bool,
    /// Ranks that are not members but whose data the members process, ascending.
    pub adopted: Vec<Rank>,
    /// The number of training processes on each worker's host.
    pub processes: ProcessCounts,
    /// The reason for this generation, as text for users; empty in the first generation and for servers.
    pub reason: String,
    /// The unicast addresses of the member itself.
    pub own: Endpoint,
    /// The unicast addresses to which workers send gradients.
    pub server: Endpoint,
    /// The multicast addresses to which the server sends multicast results.
    pub multicast: Endpoint,
    /// The member's role.
    pub role: Role,
}

/// The number of training processes of each worker of a job, and the ranks that the processes have.
///
/// A worker's rank numbers its host. A process's rank numbers the processes of all hosts: those of worker 0 first, then
/// those of worker 1, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// For each worker, the rank after its last process.
    ends: Vec<u32>,
}

impl ProcessCounts {
    /// Makes counts by the worker's rank. Each worker beyond the end has one process.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] if a count is not from 1 to 65535.
    pub fn new(counts: impl IntoIterator<Item = u32>) -> Result<Self, ConfigError> {
        let counts = counts.into_iter().map(|count| {
            let number = u16::try_from(count).ok().and_then(NonZeroU16::new);
            number.ok_or(ConfigError::OutOfRange {
                field: "processes",
                value: count.into(),
                expected: "must be 1 to 65535",
            })
        });
        counts.collect()
    }

    /// Returns the number of processes of a worker.
    pub fn of(&self, worker: Rank) -> u32 {
        self.ranks_of(worker).len() as u32
    }

    /// Returns the ranks of a worker's processes.
    pub fn ranks_of(&self, worker: Rank) -> Range<u32> {
        let end = |workers: usize| match workers.checked_sub(1).map(|last| self.ends.get(last)) {
            None => 0,
            Some(Some(end)) => *end,
            Some(None) => {
                let counted = self.ends.last().copied().unwrap_or(0);
                counted.saturating_add((workers - self.ends.len()) as u32)
            }
        };
        let before = usize::from(worker.get());
        end(before)..end(before + 1)
    }

    /// Returns the worker of the process with this rank, and the process's number on its host.
    /// The counts have no last worker, so every rank has one; `None` if the worker's rank is not below 65,535.
    pub fn worker_of(&self, rank: u32) -> Option<(Rank, u32)> {
        let counted = self.ends.partition_point(|end| *end <= rank);
        let last = self.ends.last().copied().unwrap_or(0);
        // Each worker beyond the counts has one process.
        let worker = counted as u64 + u64::from(rank.saturating_sub(last));
        let worker = u16::try_from(worker).ok().filter(|worker| *worker < u16::MAX).map(Rank::new)?;
        Some((worker, rank - self.ranks_of(worker).start))
    }

    /// Returns the counts by the worker's rank.
    pub fn counts(&self) -> impl Iterator<Item = u32> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        self.ends.iter().zip(begins).map(|(end, begin)| end - begin)
    }
}

/// Makes counts by the worker's rank.
impl FromIterator<NonZeroU16> for ProcessCounts {
    fn from_iter<I: IntoIterator<Item = NonZeroU16>>(counts: I) -> Self {
        let mut end = 0_u32;
        let ends = counts.into_iter().map(|count| {
            // A message may have more counts than there are workers.
            end = end.saturating_add(count.get().into());
            end
        });
        Self { ends: ends.collect() }
    }
}

/// The addresses of a host or of a multicast group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The Ethernet address.
    pub mac: MacAddr,
    /// The IPv4 address.
    pub ip: Ipv4Addr,
}

/// The role of a member in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A worker, which sends gradients and receives results.
    Worker {
        /// The worker's rank, which is one of [`JobConfig::ranks`].
        rank: Rank,
        /// The hop stack of the worker's gradients. The last entry is the server's.
        /// It has 1 to [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS) entries.
        up: Vec<Hop>,
        /// The secret from which the members derive their tags.
        secret: JobSecret,
        /// True if only the members can read the values, because the values are masked.
        confidential: bool,
    },
    /// The aggregation server, which is the root of the tree.
    Server {
        /// The server's node id in the last hop of each gradient's stack.
        node: NodeId,
        /// The number of children for which the server waits, which may be switches.
        /// It is 1 to [`MAX_CHILDREN`](tributary_wire::constants::MAX_CHILDREN).
        fan_in: u8,
        /// The path to each worker, in the order of [`JobConfig::ranks`].
        down: Vec<DownPath>,
        /// The state that this server takes over from a failed server; `None` if it takes over none.
        take_over: Option<TakeOver>,
        /// The key from which the server derives the vouchers of its results.
        vouching_key: JobSecret,
        /// The members' secret; `None` if the server does not read the sums.
        secret: Option<JobSecret>,
        /// True if only the members and other holders of their secret can read the values.
        confidential: bool,
    },
}

/// The path of a unicast result to one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownPath {
    /// The worker's rank.
    pub rank: Rank,
    /// The worker's unicast addresses.
    pub worker: Endpoint,
    /// The hop stack of the result. The first entry is the server's switch.
    /// It has at most [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS) entries, possibly none.
    pub hops: Vec<Hop>,
}

/// The state that a server takes over from a failed server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// For each slot of the window, in slot order, the slice that the server must finish next.
    pub dues: Vec<Seq>,
    /// Slices whose results some members have and other members will request.
    pub finished: Vec<FinishedSlice>,
}

/// A RESULT that a member has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSlice {
    /// The slice's sequence number.
    pub seq: Seq,
    /// The data-plane job id of the generation whose members contributed to the sum.
    pub job: JobId,
    /// The operator of the aggregation.
    pub operator: Operator,
    /// The sums in the header of the RESULT.
    pub totals: Totals,
    /// The values of the slice. Their number is the width of the job's slices.
    pub values: Box<[i32]>,
}
