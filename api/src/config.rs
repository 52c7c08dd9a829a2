//! What a member of a job is told, in the types of the packets.

use std::net::Ipv4Addr;

use tributary_wire::{Hop, JobId, JobSecret, MacAddr, NodeId, Operator, Rank, Seq, SliceWidth, Tally};

/// All that a worker or a server needs to take part in one generation of a job.
///
/// Made by the controller as a literal, and by an agent with `JobConfig::try_from(v1::JobConfig)`, which
/// checks everything that the fields' comments promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobConfig {
    /// The job's name.
    pub name: String,
    /// Its data-plane id.
    pub job: JobId,
    /// How many values a slice has: V in DESIGN.md.
    pub width: SliceWidth,
    /// Slices under way at once, S in DESIGN.md: a power of two.
    pub window: u32,
    /// Counts the versions of the job's structure, from 1.
    pub generation: u32,
    /// The member's first slice: the job's, or for one that joins later the beginning of the operation that it is in
    /// from.
    pub start_seq: Seq,
    /// Operations that the job had begun before that slice.
    pub begun: u64,
    /// How results come to the workers.
    pub downlink: Downlink,
    /// Ranks of all workers: ascending, at least one, never [`Rank::ALL`].
    pub ranks: Vec<Rank>,
    /// Those of them that were not in the generation before, ascending; none in the first generation.
    pub joined: Vec<Rank>,
    /// The members synchronise before they reduce again, also where nobody has joined: whose data they process has
    /// changed.
    pub regroup: bool,
    /// Ranks that are not in and whose data the members process: ascending.
    pub adopted: Vec<Rank>,
    /// Why there is this generation, for people; empty in the first one, and for servers.
    pub reason: String,
    /// The member's own addresses: unicast.
    pub own: Endpoint,
    /// Where gradients go: unicast.
    pub server: Endpoint,
    /// Where multicast results go: multicast.
    pub multicast: Endpoint,
    /// What this member does.
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

/// How results come to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Downlink {
    /// The server sends each result once, to the multicast address.
    Multicast,
    /// The server sends each result to every worker.
    Unicast,
}

/// What a member does in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Gives gradients and takes results.
    Worker {
        /// One of [`JobConfig::ranks`].
        rank: Rank,
        /// Hop stack of its gradients, the server's entry last: 1 to
        /// [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS) entries.
        up: Vec<Hop>,
        /// What the members' tags are made from.
        secret: JobSecret,
        /// Values are hidden from all but members.
        confidential: bool,
    },
    /// The root of the tree.
    Server {
        /// The server as the last hop of every stack names it.
        node: NodeId,
        /// Children (not workers) that it waits for: 1 to
        /// [`MAX_CHILDREN`](tributary_wire::constants::MAX_CHILDREN).
        fan_in: u8,
        /// The way to each worker: in the order of [`JobConfig::ranks`].
        down: Vec<DownPath>,
        /// Where another server stopped and this one goes on; `None` for a job's first server, and for one that stays.
        take_over: Option<TakeOver>,
        /// With what it vouches for the results that it sends.
        vouching_key: JobSecret,
        /// The members' secret, for a server that reads the sums.
        secret: Option<JobSecret>,
        /// Values are hidden from all but members, and from who has their secret.
        confidential: bool,
    },
}

/// The way of a unicast result to one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownPath {
    /// The worker's rank.
    pub rank: Rank,
    /// Its addresses: unicast.
    pub worker: Endpoint,
    /// Hop stack, the server's switch first: at most
    /// [`MAX_HOPS`](tributary_wire::constants::MAX_HOPS) entries, possibly none.
    pub hops: Vec<Hop>,
}

/// Where a server goes on for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// For each of the window's slots, in slot order, the slice that is to be finished next.
    pub dues: Vec<Seq>,
    /// Slices that some members have the results of, and others will ask for.
    pub finished: Vec<FinishedSlice>,
}

/// A RESULT, as a member has verified it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSlice {
    /// Which slice.
    pub seq: Seq,
    /// The data-plane id of the generation whose members are in the sum.
    pub job: JobId,
    /// How it was aggregated.
    pub operator: Operator,
    /// Its header's sums.
    pub tally: Tally,
    /// Its values: as many as the job's slices have.
    pub values: Box<[i32]>,
}
