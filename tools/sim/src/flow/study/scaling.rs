//! A growing number of workers of one job.

use super::settings::{Point, Settings};
use crate::flow::error::FlowError;
use crate::flow::job::{Compute, Job};
use crate::flow::outcome::FlowOutcome;
use crate::flow::setup::Setup;

pub(super) const WORKERS: [usize; 5] = [16, 64, 256, 1024, 4096];

/// Only the hosts' paths are random, so that one synchronisation is enough.
const ITERATIONS: u32 = 1;

pub(super) fn measure(settings: &Settings, place: usize) -> Result<Point, FlowError> {
    let workers = WORKERS.get(place).copied().unwrap_or(WORKERS[0]);
    let servers = settings.servers.max(1);
    let topology = settings.network(workers + servers, 1, workers)?;
    let idle = topology.hosts().filter(|(_, _, host)| host.role.is_none()).map(|(key, ..)| key);
    let idle: Vec<_> = idle.collect();
    // The servers are spread over the hosts, like the workers.
    let others = idle.iter().copied().step_by((idle.len() / servers).max(1));
    let servers: Vec<_> = topology.servers().into_iter().chain(others).collect();
    let setup = |method, seed| {
        let job = Job {
            workers: topology.workers(),
            servers: servers.clone(),
            gradient_bytes: settings.gradient_bytes,
            compute: Compute { seconds: 0.0, spread: 0.0 },
            method,
            begins: 0.0,
        };
        Setup { iterations: ITERATIONS, ..settings.setup(&topology, vec![job], seed) }
    };
    let counts = |_: &Setup<'_>, outcome: &FlowOutcome| {
        Ok(outcome.jobs.iter().map(|job| job.mean_synchronisation()).sum())
    };
    settings.compare(workers.to_string(), &settings.methods(), setup, counts)
}
