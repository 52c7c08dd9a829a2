//! What each member of a job is told.

use tributary_api::{DownPath, Downlink, Endpoint, JobConfig, Role};
use tributary_planner as planner;
use tributary_topology::{NodeKey, Topology};
use tributary_wire::{Rank, Seq};

use super::record::JobRecord;
use crate::tables::multicast;

/// The configuration of the member on `host`; `None` when that host is not one of the job's.
pub(crate) fn config(topology: &Topology, record: &JobRecord, host: &str) -> Option<JobConfig> {
    let plan = &record.plan;
    let key = topology.find(host)?;
    Some(JobConfig {
        name: record.name.clone(),
        job: record.job,
        window: plan.window,
        generation: 1,
        start_seq: Seq::FIRST,
        begun: 0,
        downlink: match plan.downlink {
            planner::Downlink::Multicast => Downlink::Multicast,
            planner::Downlink::Unicast => Downlink::Unicast,
        },
        ranks: plan.workers.iter().map(|worker| Rank::new(worker.rank)).collect(),
        joined: Vec::new(),
        own: endpoint(topology, key)?,
        server: endpoint(topology, plan.server.key)?,
        multicast: multicast::job_address(record.job),
        role: role(topology, plan, key)?,
    })
}

fn role(topology: &Topology, plan: &planner::Plan, host: NodeKey) -> Option<Role> {
    if let Some(worker) = plan.workers.iter().find(|worker| worker.key == host) {
        return Some(Role::Worker { rank: Rank::new(worker.rank), up: worker.up.clone() });
    }
    if plan.server.key != host {
        return None;
    }
    let path = |worker: &planner::WorkerRoute| {
        let endpoint = endpoint(topology, worker.key)?;
        Some(DownPath { rank: Rank::new(worker.rank), worker: endpoint, hops: worker.down.clone() })
    };
    let down = plan.workers.iter().map(path).collect::<Option<_>>()?;
    Some(Role::Server { node: plan.server.node, fan_in: plan.server.fan_in, down, take_over: None })
}

fn endpoint(topology: &Topology, host: NodeKey) -> Option<Endpoint> {
    let host = topology.get(host)?.host()?;
    Some(Endpoint { mac: host.mac, ip: host.ip })
}
