//! A growing number of jobs that share links and slots.

use tributary_topology::Topology;

use super::settings::{Point, Settings};
use crate::flow::error::FlowError;

pub(super) const JOBS: [usize; 5] = [1, 2, 4, 8, 16];
pub(super) const MOST: usize = JOBS[JOBS.len() - 1];

pub(super) fn measure(settings: &Settings, place: usize) -> Result<Point, FlowError> {
    let jobs = JOBS.get(place).copied().unwrap_or(MOST);
    let topology = network(settings)?;
    let setup = |method, seed| settings.setup(&topology, settings.jobs(&topology, jobs, method, seed), seed);
    settings.compare(jobs.to_string(), &settings.methods(), setup, |_, outcome| Ok(outcome.mean_iteration()))
}

/// Makes a network that has room for all jobs.
pub(super) fn network(settings: &Settings) -> Result<Topology, FlowError> {
    settings.network(MOST * settings.hosts_of_job(), settings.oversubscription, 1)
}
