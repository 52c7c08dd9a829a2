//! Jobs: their workers, their computing times, and their methods of synchronisation.

use serde::Serialize;
use tributary_topology::NodeKey;

/// The method by which a job's workers obtain the sum of their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
pub enum Method {
    /// In-network aggregation on every switch of the planner's tree.
    Fabric {
        /// The job's window, in slices.
        window: u32,
    },
    /// In-network aggregation only on switches next to workers: a single hop.
    Leaf {
        /// The job's window, in slices.
        window: u32,
    },
    /// A parameter server on hosts.
    ///
    /// Each worker sends an equal part of its gradient to each of the servers, and receives the sum from
    /// them.
    ParameterServer {
        /// The number of hosts that serve.
        servers: usize,
    },
    /// Ring all-reduce, by reduce-scatter and all-gather.
    Ring,
    /// Tree all-reduce over the double binary tree of Sanders, Speck and Träff (2009), in NCCL's layout.
    ///
    /// Each of the two trees carries a half of the gradient.
    DoubleTree,
}

impl Method {
    /// Returns true if switches aggregate.
    pub fn is_in_network(self) -> bool {
        matches!(self, Self::Fabric { .. } | Self::Leaf { .. })
    }

    /// Returns the number of hosts that serve.
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
    /// The greatest delay of a worker, as a share of `seconds`.
    ///
    /// In each iteration, each worker draws a uniformly distributed time between `seconds` and `(1 + spread)
    /// · seconds`.
    pub spread: f64,
}

/// A training job.
///
/// In each iteration its workers compute, and then synchronise gradients. The synchronisation begins when the
/// slowest worker has finished its computation. The next iteration begins when the synchronisation ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The hosts that train, in the order of their ranks; at least two. Rings and trees follow this order.
    pub workers: Vec<NodeKey>,
    /// The hosts that can serve. The method uses the first ones, up to the number that it needs.
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
