//! What the API tells about jobs and switches.

use tributary_api::v1;
use tributary_p4runtime::entry::CounterCell;
use tributary_planner::Plan;
use tributary_topology::{NodeKey, Topology};

use crate::jobs::{Job, Registry, State};
use crate::pipeline::{JOB_COUNTER_PREFIX, PORT_COUNTER_PREFIX};

/// The plan in short.
pub(crate) fn plan_summary(plan: &Plan) -> v1::PlanSummary {
    let switch = |role: &tributary_planner::SwitchRole| v1::TreeSwitch {
        name: role.name.clone(),
        node: role.node.get().into(),
        aggregates: role.aggregate,
        fan_in: role.fan_in.into(),
    };
    v1::PlanSummary {
        switches: plan.switches.iter().map(switch).collect(),
        server_fan_in: plan.server.fan_in.into(),
        window: plan.window,
        workers: plan.workers.iter().map(|worker| worker.name.clone()).collect(),
        server: plan.server.name.clone(),
        notes: plan.notes.clone(),
        speedup_over_ring: plan.comparison.speedup_over_ring,
        speedup_over_parameter_server: plan.comparison.speedup_over_parameter_server,
    }
}

/// A job and its state.
pub(crate) fn job(job: &Job) -> v1::Job {
    let (state, reason) = match job.state() {
        State::Created => (v1::JobState::Created, ""),
        State::Installing => (v1::JobState::Installing, ""),
        State::Running => (v1::JobState::Running, ""),
        State::Ended => (v1::JobState::Ended, ""),
        State::Failed(reason) => (v1::JobState::Failed, reason.as_str()),
    };
    v1::Job {
        name: job.record.name.clone(),
        state: state.into(),
        job_id: job.record.job.get().into(),
        job_index: job.record.job_index.into(),
        reason: reason.to_owned(),
        waiting_for: job.waiting_for(),
        plan: Some(plan_summary(&job.record.plan)),
        generation: 1,
        last_change: String::new(),
    }
}

/// The counters of one switch: those of every job that still has its index, and of the ports that have a
/// link.
pub(crate) fn counters(
    topology: &Topology,
    jobs: &Registry,
    switch: NodeKey,
    cells: &[CounterCell],
) -> v1::SwitchCounters {
    let linked: Vec<_> = topology.neighbours(switch).iter().map(|neighbour| neighbour.port).collect();
    let job_counter = |cell: &CounterCell| {
        let reason = cell.counter.strip_prefix(JOB_COUNTER_PREFIX)?;
        let job = owner(jobs, switch, cell.index)?.record.name.clone();
        Some(v1::JobCounter { job, reason: reason.to_owned(), packets: cell.packets, bytes: cell.bytes })
    };
    let port_counter = |cell: &CounterCell| {
        let kind = cell.counter.strip_prefix(PORT_COUNTER_PREFIX)?;
        let port = *linked.iter().find(|port| u64::from(**port) == cell.index)?;
        let kind = kind.to_owned();
        Some(v1::PortCounter { port: port.into(), kind, packets: cell.packets, bytes: cell.bytes })
    };
    v1::SwitchCounters {
        name: topology.get(switch).map(|node| node.name.clone()).unwrap_or_default(),
        jobs: cells.iter().filter_map(job_counter).collect(),
        ports: cells.iter().filter_map(port_counter).collect(),
    }
}

/// The last job that was given the index, if it uses the switch.
fn owner(jobs: &Registry, switch: NodeKey, index: u64) -> Option<&Job> {
    let (_, job) = jobs.iter().rev().find(|(_, job)| u64::from(job.record.job_index) == index)?;
    let on_tree = job.record.plan.switches.iter().any(|role| role.key == switch && role.programmable);
    on_tree.then_some(job)
}
