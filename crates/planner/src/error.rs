//! The errors of planning a job.

use thiserror::Error;
use tributary_wire::SliceWidth;
use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS, RANK_ALL};

/// An error that prevents a plan for a job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A member is not a node of this topology.
    #[error("node number {0} is not in the topology: find members by their names in this topology")]
    NoSuchNode(usize),
    /// A member is a switch.
    #[error("{0:?} is a switch: workers and the server are hosts")]
    NotAHost(String),
    /// The job has no workers.
    #[error("the job has no workers: name at least one host")]
    NoWorkers,
    /// The rank is reserved for "all workers".
    #[error("rank {0} stands for all workers: a worker's rank is at most {most}", most = RANK_ALL - 1)]
    BadRank(u16),
    /// A rank is repeated or out of order.
    #[error("rank {rank} comes after rank {before}: name the workers by rising rank, each rank once")]
    RanksNotRising {
        /// The rank that is not higher than its predecessor.
        rank: u16,
        /// The predecessor's rank.
        before: u16,
    },
    /// A host has two ranks.
    #[error("{0:?} is in the job twice: a host has one rank")]
    DuplicateWorker(String),
    /// The server's host is also a worker, but its switch cannot send gradients back through the port at
    /// which they arrive.
    #[error(
        "{server:?} cannot serve a job in which it is a worker: its switch {switch:?} does not run Tributary's \
         program, and sends no packet back to the port on which it arrived; choose another server"
    )]
    WorkerServesBehindPlainSwitch {
        /// The host.
        server: String,
        /// The switch to which the host is linked.
        switch: String,
    },
    /// The window is not a power of two, so a bit mask cannot compute `seq mod S`.
    #[error("a window of {0} slices: use a power of two")]
    BadWindow(u32),
    /// The gradient has no values.
    #[error("a gradient of 0 bytes: there is nothing to plan for")]
    EmptyGradient,
    /// No live path leads from the worker to the server.
    #[error("worker {worker:?} cannot reach the server {server:?}: a link or switch between them is down")]
    Unreachable {
        /// The worker.
        worker: String,
        /// The server.
        server: String,
    },
    /// Every live path contains a link whose MTU is too small for the job's packets.
    #[error(
        "worker {worker:?} reaches the server {server:?} only over links that do not carry slices of {values} values, \
         whose packets have up to {needed} bytes: the link between {first:?} and {second:?} has an mtu of {mtu}; \
         repair what is down, or restart the controller with --mtu {mtu} and create the job again",
        values = width.values(),
        needed = width.mtu(),
        first = ends[0],
        second = ends[1]
    )]
    TooNarrow {
        /// The worker.
        worker: String,
        /// The server.
        server: String,
        /// The two ends of the link.
        ends: [String; 2],
        /// The longest packet that the link carries, in bytes.
        mtu: u16,
        /// The width of the job's slices.
        width: SliceWidth,
    },
    /// Every live path contains a link that loses packets of the length of the job's packets.
    #[error(
        "worker {worker:?} reaches the server {server:?} only over links that lose packets of {needed} bytes, as \
         slices of {values} values need: the link between {first:?} and {second:?} loses them, though its mtu in the \
         topology is {mtu}; raise the MTU of the interfaces at both of its ends to this (`ip link`), or give the link \
         its real mtu in the topology",
        values = width.values(),
        needed = width.mtu(),
        first = ends[0],
        second = ends[1]
    )]
    ShortOfMtu {
        /// The worker.
        worker: String,
        /// The server.
        server: String,
        /// The two ends of the link.
        ends: [String; 2],
        /// The longest packet that the link should carry, in bytes.
        mtu: u16,
        /// The width of the job's slices.
        width: SliceWidth,
    },
    /// No worker can reach a host that could be the server.
    #[error(
        "no worker of the job reaches a host that could serve it ({}): repair what is down, or start an agent or a \
         server on a host that a worker reaches",
        if .candidates.is_empty() { "there is none".to_owned() } else { .candidates.join(", ") }
    )]
    NoServer {
        /// The names of the hosts that could serve.
        candidates: Vec<String>,
    },
    /// The path is longer than the hop stack of a packet.
    #[error(
        "worker {worker:?} is {hops} hops from the server, and a packet carries {most} at most: choose a \
         server that is nearer",
        most = MAX_HOPS
    )]
    TooDeep {
        /// The worker.
        worker: String,
        /// The number of entries that the worker's hop stack would have, including the server's entry.
        hops: usize,
    },
    /// More streams arrive at the server than it can distinguish.
    #[error(
        "{children} streams would arrive at the server {server:?}, but it distinguishes at most {most}: let more \
         switches aggregate",
        most = MAX_CHILDREN
    )]
    TooManyChildren {
        /// The server.
        server: String,
        /// The number of streams that would arrive.
        children: usize,
    },
    /// The planner broke one of its own rules. Its plan must not be used.
    #[error("the planner made a tree that breaks its rules, which is a defect of Tributary: {0}")]
    Internal(String),
}
