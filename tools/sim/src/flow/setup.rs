//! The setup of a simulation.

use tributary_topology::Topology;

use super::assumptions::Assumptions;
use super::background::Background;
use super::job::Job;
use super::outage::Outage;

/// Everything that an outcome depends on.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The network. Its loads and roles are not used, because `background` and `jobs` define the traffic.
    pub topology: &'a Topology,
    /// The assumptions about machines and protocols.
    pub assumptions: Assumptions,
    /// The jobs, in the order in which they are planned. All are planned before the first begins.
    pub jobs: Vec<Job>,
    /// Number of counted iterations of each job.
    ///
    /// A job that has finished them continues, so that the other jobs do not get its share of the links.
    pub iterations: u32,
    /// Other traffic on the links.
    pub background: Option<Background>,
    /// The outages.
    pub outages: Vec<Outage>,
    /// The seed of all random numbers.
    pub seed: u64,
}
