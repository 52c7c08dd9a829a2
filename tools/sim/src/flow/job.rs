//! Jobs: their workers, their computing times, and how they synchronise.

use serde::Serialize;
use tributary_topology::NodeKey;

/// The way in which a job's workers obtain the sum of their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
pub enum Method {
    /// In-network aggregation on every switch of the planner's tree.
    Fabric {
        /// The job's window, in slices.
        window: u32,
    },
    /// In-network aggregation only on switches that workers are linked to: a single hop.
    Leaf {
        /// The job's window, in slices.
        window: u32,
    },
    /// A parameter server on hosts: each worker sends an equal part of its gradient to each of the servers,
    /// and gets the sum back.
    ParameterServer {
        /// The number of hosts that serve.
        servers: usize,
    },
    /// Ring all-reduce, by reduce-scatter and all-gather.
    Ring,
    /// Tree all-reduce: the double binary tree of Sanders, Speck and Träff (2009), laid as NCCL lays it, a
    /// half of the gradient on each tree.
    DoubleTree,
}

impl Method {
    /// Returns true if switches aggregate.
    pub fn is_in_network(self) -> bool {
        matches!(self, Self::Fabric { .. } | Self::Leaf { .. })
    }

    /// The number of hosts that serve.
    pub fn servers(self) -> usize {
        match self {
            Self::Fabric { .. } | Self::Leaf { .. } => 1,
            Self::ParameterServer { servers } => servers,
            Self::Ring | Self::DoubleTree => 0,
        }
    }
}

/// The computing time of workers in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compute {
    /// The shortest time, in seconds.
    pub seconds: f64,
    /// The most by which a worker can be slower, as a share of `seconds`: each draws a time between
    /// `seconds` and `(1 + spread) · seconds` in each iteration, uniformly distributed.
    pub spread: f64,
}

/// A training.
/// In each iteration its workers compute, and then synchronise gradients; the synchronisation begins when the slowest
/// worker has finished its computation, and the next iteration begins when the synchronisation ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The hosts that train, in the order of their ranks: neighbours in a ring, and in trees. At least two.
    pub workers: Vec<NodeKey>,
    /// The hosts that can serve; the method uses as many as it needs, from the first on.
    pub servers: Vec<NodeKey>,
    /// Bytes of one worker's gradient, 4 per value.
    pub gradient_bytes: u64,
    /// The computing between two synchronisations.
    pub compute: Compute,
    /// The method of synchronisation.
    pub method: Method,
    /// The time when the first iteration begins, in seconds.
    pub begins: f64,
}
