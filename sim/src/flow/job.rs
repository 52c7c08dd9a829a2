//! Jobs: who trains, for how long they compute, and how they synchronise.

use serde::Serialize;
use tributary_topology::NodeKey;

/// How a job's workers come by the sum of their gradients.
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
    /// A parameter server on hosts: each worker sends its gradient to the servers, each of which has an equal part, and gets
    /// the sum back.
    ParameterServer {
        /// How many hosts serve.
        servers: usize,
    },
    /// Ring all-reduce, by reduce-scatter and all-gather.
    Ring,
    /// Tree all-reduce: the double binary tree of Sanders, Speck and Träff (2009), laid as NCCL lays it, a half of the
    /// gradient on each tree.
    DoubleTree,
}

impl Method {
    /// Whether switches aggregate.
    pub fn is_in_network(self) -> bool {
        matches!(self, Self::Fabric { .. } | Self::Leaf { .. })
    }

    /// How many hosts serve.
    pub fn servers(self) -> usize {
        match self {
            Self::Fabric { .. } | Self::Leaf { .. } => 1,
            Self::ParameterServer { servers } => servers,
            Self::Ring | Self::DoubleTree => 0,
        }
    }
}

/// How long workers compute in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compute {
    /// The shortest time, in seconds.
    pub seconds: f64,
    /// By what share of it the slowest worker can be slower: each takes a time from `seconds` to `(1 + spread) · seconds`,
    /// all equally likely, anew in each iteration.
    pub spread: f64,
}

/// A training. In each iteration its workers compute, and then synchronise gradients; the synchronisation begins when the
/// slowest of them has computed, and the next iteration when it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The hosts that train, in the order of their ranks: neighbours in a ring, and in trees. At least two.
    pub workers: Vec<NodeKey>,
    /// The hosts that serve: of them as many as the method needs, from the first on.
    pub servers: Vec<NodeKey>,
    /// Bytes of one worker's gradient, 4 a value.
    pub gradient_bytes: u64,
    /// The computing between two synchronisations.
    pub compute: Compute,
    /// How it synchronises.
    pub method: Method,
    /// When its first iteration begins, in seconds.
    pub begins: f64,
}
