//! The results of a simulation.

use petgraph::visit::EdgeRef;
use serde::Serialize;
use tributary_topology::{LinkDirection, NodeKey, Topology};

use super::network::index;

/// The results of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowOutcome {
    /// The results of each job.
    pub jobs: Vec<JobOutcome>,
    /// Time until the last job was done, in seconds.
    pub seconds: f64,
    /// Bytes by link direction. The index is twice the link's number plus the index of the sending end.
    pub(super) carried: Vec<f64>,
    pub(super) capacity: Vec<f64>,
}

/// The results of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOutcome {
    /// The counted iterations, in order.
    pub iterations: Vec<Iteration>,
    /// Number of switches that aggregated for the job at the end.
    pub aggregating: usize,
    /// Number of switches at which the job's streams met without being summed at the end.
    pub passing: usize,
    /// True if, in the first synchronisation, the job's window limited it more than the links did.
    pub is_window_bound: bool,
}

/// The times of one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Iteration {
    /// Time until the slowest worker finished its computation, in seconds.
    pub compute: f64,
    /// Time from the end of the slowest computation until all workers had the sum, in seconds.
    pub synchronisation: f64,
}

impl JobOutcome {
    /// Returns the mean time of an iteration, in seconds.
    pub fn mean_iteration(&self) -> f64 {
        self.mean(|iteration| iteration.compute + iteration.synchronisation)
    }

    /// Returns the mean time of a synchronisation, in seconds.
    pub fn mean_synchronisation(&self) -> f64 {
        self.mean(|iteration| iteration.synchronisation)
    }

    /// Returns the time of all iterations together, in seconds.
    pub fn seconds(&self) -> f64 {
        self.mean_iteration() * self.iterations.len() as f64
    }

    fn mean(&self, of: fn(&Iteration) -> f64) -> f64 {
        self.iterations.iter().map(of).sum::<f64>() / self.iterations.len().max(1) as f64
    }
}

impl FlowOutcome {
    /// Returns the bytes that a link direction carried, headers included.
    pub fn carried(&self, direction: LinkDirection) -> f64 {
        self.carried.get(index(direction)).copied().unwrap_or(0.0)
    }

    /// Returns the bytes that went into and out of a node, headers included.
    ///
    /// `topology` must be the simulated topology.
    pub fn through(&self, topology: &Topology, node: NodeKey) -> f64 {
        let links = topology.graph().edges(node).map(|edge| edge.id());
        links.flat_map(|link| [0, 1].map(|sender| self.carried(LinkDirection { link, sender }))).sum()
    }

    /// Returns the utilisation of the busiest link direction, relative to its final capacity: from 0 to 1.
    pub fn busiest(&self) -> f64 {
        let used = self.carried.iter().zip(&self.capacity).filter(|(_, capacity)| **capacity > 0.0);
        used.map(|(bytes, capacity)| bytes / (capacity * self.seconds)).fold(0.0, f64::max)
    }

    /// Returns the mean of the jobs' mean iteration times, in seconds.
    pub fn mean_iteration(&self) -> f64 {
        let all: f64 = self.jobs.iter().map(JobOutcome::mean_iteration).sum();
        all / self.jobs.len().max(1) as f64
    }
}
