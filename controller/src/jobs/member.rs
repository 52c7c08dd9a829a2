//! Builds the configuration of each member of a job.

use tributary_api::{DownPath, Endpoint, JobConfig, Role, TakeOver};
use tributary_planner as planner;
use tributary_protocol::{Stripe, vouching_key};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::Rank;

use super::generation::{Beginning, Generation};
use super::record::JobRecord;
use crate::tables::multicast;

/// Returns the configuration of the worker `rank`; `None` if it is not in the generation.
pub(crate) fn worker_config(
    topology: &Topology,
    record: &JobRecord,
    generation: &Generation,
    rank: Rank,
) -> Option<JobConfig> {
    let worker = generation.plan.workers.iter().find(|worker| worker.rank == rank.get())?;
    let (up, secret, confidential) = (worker.up.clone(), record.secret.clone(), record.terms.confidential);
    let role = Role::Worker { rank, up, secret, confidential };
    let is_new = generation.joined.contains(&rank);
    let beginning = if is_new { generation.beginning.clone() } else { Beginning::OF_JOB };
    config(topology, record, generation, (worker.key, role, beginning))
}

/// Returns the configuration of the generation's server.
/// `take_over` describes the server from which it takes over; `None` if there was none.
pub(crate) fn server_config(
    topology: &Topology,
    record: &JobRecord,
    generation: &Generation,
    take_over: Option<TakeOver>,
) -> Option<JobConfig> {
    let plan = &generation.plan;
    let path = |worker: &planner::WorkerRoute| {
        let endpoint = endpoint(topology, worker.key)?;
        Some(DownPath { rank: Rank::new(worker.rank), worker: endpoint, hops: worker.down.clone() })
    };
    let down = plan.workers.iter().map(path).collect::<Option<_>>()?;
    let secret = record.terms.server_reads.then(|| record.secret.clone());
    let role = Role::Server {
        node: plan.server.node,
        fan_in: plan.server.fan_in,
        down,
        take_over,
        vouching_key: vouching_key(&record.secret),
        secret,
        confidential: record.terms.confidential,
    };
    config(topology, record, generation, (plan.server.key, role, Beginning::OF_JOB))
}

fn config(
    topology: &Topology,
    record: &JobRecord,
    generation: &Generation,
    (host, role, beginning): (NodeKey, Role, Beginning),
) -> Option<JobConfig> {
    let plan = &generation.plan;
    let is_worker = matches!(role, Role::Worker { .. });
    let start_seqs = match beginning.seqs.is_empty() {
        true => Stripe::all(record.terms.threads, plan.window).ok()?.map(Stripe::first).collect(),
        false => beginning.seqs,
    };
    Some(JobConfig {
        name: record.name.clone(),
        job: generation.job,
        width: plan.width,
        window: plan.window,
        generation: generation.number,
        start_seqs,
        begun: beginning.begun,
        downlink: plan.downlink,
        slice_time: plan.slice_time(),
        switches: plan.aggregating_switches(),
        ranks: generation.ranks().collect(),
        joined: generation.joined.clone(),
        regroup: generation.regroup,
        adopted: generation.detachment.adopted().to_vec(),
        processes: record.process_counts(),
        reason: if is_worker && generation.number > 1 { record.last_change.clone() } else { String::new() },
        own: endpoint(topology, host)?,
        server: endpoint(topology, plan.server.key)?,
        multicast: multicast::job_address(generation.job),
        role,
    })
}

pub(super) fn endpoint(topology: &Topology, host: NodeKey) -> Option<Endpoint> {
    let host = topology.get(host)?.host()?;
    Some(Endpoint { mac: host.mac, ip: host.ip })
}
