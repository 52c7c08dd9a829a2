//! The configuration of a job's member, in the types of the packets.

use std::net::Ipv4Addr;
use std::time::Duration;

use tributary_wire::{
    Downlink, Hop, JobId, JobSecret, MacAddr, NodeId, Operator, Rank, Seq, SliceWidth, Totals,
};

/// Everything that a worker or a server needs to take part in one generation of a job.
///
/// The controller makes it as a literal, an agent with `JobConfig::try_from(v1::JobConfig)`, which checks everything
/// that the fields' comments promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// The job's name.
    pub name: String,
    /// Its data-plane id.
    pub job: JobId,
    /// The number of values in a slice: V in `docs/specification.md`.
    pub width: SliceWidth,
    /// The number of slices in flight at once, S in `docs/specification.md`: a power of two.
    pub window: u32,
    /// The number of the generation, from 1.
    pub generation: u32,
    /// The member's first slice: the job's first, or for a member that joins later the first of the
    /// operation with which it begins.
    pub start_seq: Seq,
    /// Operations that the job had begun before that slice.
    pub begun: u64,
    /// The delivery of results to the workers.
    pub downlink: Downlink,
    /// Time for which a slice keeps the slowest link of the job's tree busy; zero: unknown.
    pub slice_time: Duration,
    /// The number of switches that add the job's gradients.
    pub switches: u32,
    /// Ranks of all workers: ascending, at least one, never [`Rank::ALL`].
    pub ranks: Vec<Rank>,
    /// Ranks that were not in the generation before, ascending; empty in the first generation.
    pub joined: Vec<Rank>,
    /// True if the members synchronise before they reduce again, because a worker has joined, or because
    /// the members' share of the data has changed.
    pub regroup: bool,
    /// Ranks that take no part but whose data the members process: ascending.
    pub adopted: Vec<Rank>,
    /// The reason for this generation, as text for users; empty in the first one, and for servers.
    pub reason: String,
    /// The member's own addresses; unicast.
    pub own: Endpoint,
    /// The destination of gradients; unicast.
    pub server: Endpoint,
    /// The destination of multicast results; multicast.
    pub multicast: Endpoint,
    /// The member's role.
    pub role: Role,
}

/// Addresses of a host, or of a multicast group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Ethernet address.
    pub mac: MacAddr,
    /// IPv4 address.
    pub ip: Ipv4Addr,
}

/// The role of a member in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Gives gradients and takes results.
    Worker {
        /// One of [`JobConfig::ranks`].
        rank: Rank,
        /// Hop stack of its gradients, the server's entry last: 1 to
        /// [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS) entries.
        up: Vec<Hop>,
        /// The secret from which the members' tags are made.
        secret: JobSecret,
        /// True if values are hidden from everyone except members.
        confidential: bool,
    },
    /// The root of the tree.
    Server {
        /// The server's node id in the last hop of every stack.
        node: NodeId,
        /// Children (not workers) that it waits for: 1 to
        /// [`MAX_CHILDREN`](tributary_wire::constants::MAX_CHILDREN).
        fan_in: u8,
        /// The way to each worker, in the order of [`JobConfig::ranks`].
        down: Vec<DownPath>,
        /// Where this server takes over from another one; `None` for a job's first
        /// server, and for one that stays.
        take_over: Option<TakeOver>,
        /// The key with which it vouches for the results that it sends.
        vouching_key: JobSecret,
        /// The members' secret, for a server that reads the sums.
        secret: Option<JobSecret>,
        /// True if values are hidden from everyone except members and holders of their secret.
        confidential: bool,
    },
}

/// The way of a unicast result to one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownPath {
    /// The worker's rank.
    pub rank: Rank,
    /// Its addresses; unicast.
    pub worker: Endpoint,
    /// Its hop stack, the server's switch first: at most [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS)
    /// entries, possibly none.
    pub hops: Vec<Hop>,
}

/// Where a server takes over from another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// For each of the window's slots, in slot order, the slice that the server must finish next.
    pub dues: Vec<Seq>,
    /// Slices whose results some members have, and others will request.
    pub finished: Vec<FinishedSlice>,
}

/// A RESULT that a member has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSlice {
    /// The slice's sequence number.
    pub seq: Seq,
    /// The data-plane id of the generation whose members are in the sum.
    pub job: JobId,
    /// The operator of the aggregation.
    pub operator: Operator,
    /// The sums in its header.
    pub totals: Totals,
    /// Its values, as many as the job's slices have.
    pub values: Box<[i32]>,
}
