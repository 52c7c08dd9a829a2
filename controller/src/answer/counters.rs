//! Builds the API's answers about counters.

use std::collections::BTreeMap;

use tributary_api::v1;
use tributary_p4runtime::entry::CounterCell;
use tributary_topology::{NodeKey, Topology};

use crate::clock::milliseconds;
use crate::jobs::{Job, JobKey, Registry};
use crate::manager::Manager;
use crate::pipeline::{JOB_COUNTER_PREFIX, PORT_COUNTER_PREFIX};
use crate::switch::Counters;

/// Returns the counters of the `wanted` switches, in the order of the topology.
pub(crate) async fn all_counters(
    manager: &Manager,
    wanted: impl Fn(&str) -> bool,
) -> Vec<v1::SwitchCounters> {
    let read = manager.counters(wanted).await;
    let state = manager.state();
    let told = |(key, read): &(NodeKey, Counters)| counters(&manager.topology(), &state.jobs, *key, read);
    read.iter().map(told).collect()
}

/// Returns the counters of one switch, for its jobs and for every port with a link.
///
/// A job is included if it still has its job index and no later job has its name.
fn counters(
    topology: &Topology,
    jobs: &Registry,
    switch: NodeKey,
    counters: &Counters,
) -> v1::SwitchCounters {
    let cells = counters.last.as_ref().map(|reading| &*reading.cells).unwrap_or_default();
    let (neighbours, owners) = (topology.neighbours(switch), owners(jobs, switch));
    let name = |node| topology.get(node).map(|node| node.name.clone()).unwrap_or_default();
    let job_counter = |cell: &CounterCell| {
        let reason = cell.counter.strip_prefix(JOB_COUNTER_PREFIX)?;
        let &(job_number, job) = owners.get(&cell.index)?;
        Some(v1::JobCounter {
            job: job.record.name.clone(),
            job_number,
            reason: reason.to_owned(),
            packets: cell.packets,
            bytes: cell.bytes,
        })
    };
    let port_counter = |cell: &CounterCell| {
        let kind = cell.counter.strip_prefix(PORT_COUNTER_PREFIX)?;
        let neighbour = neighbours.iter().find(|neighbour| u64::from(neighbour.port) == cell.index)?;
        Some(v1::PortCounter {
            port: neighbour.port.into(),
            kind: kind.to_owned(),
            packets: cell.packets,
            bytes: cell.bytes,
            neighbour: name(neighbour.node),
            link_rate: topology[neighbour.link].rate,
        })
    };
    v1::SwitchCounters {
        name: name(switch),
        jobs: cells.iter().filter_map(job_counter).collect(),
        ports: cells.iter().filter_map(port_counter).collect(),
        unreachable: counters.stale.clone(),
        age_milliseconds: counters.last.as_ref().map(|reading| milliseconds(reading.at.elapsed())),
    }
}

/// Returns the last job that had each job index.
/// Omits a job if it does not use the switch or if a later job has its name.
fn owners(jobs: &Registry, switch: NodeKey) -> BTreeMap<u64, (JobKey, &Job)> {
    let mut owners: BTreeMap<_, _> =
        jobs.iter().map(|(key, job)| (u64::from(job.record.job_index), (key, job))).collect();
    owners.retain(|_, (key, job)| {
        let mut tree = job.record.generation().plan.switches.iter();
        tree.any(|role| role.key == switch && role.programmable) && jobs.latest(&job.record.name) == Ok(*key)
    });
    owners
}
