//! What the API tells about jobs and switches.

use std::time::Duration;

use tributary_api::v1;
use tributary_p4runtime::entry::CounterCell;
use tributary_planner::Plan;
use tributary_topology::{NodeKey, Topology};

use crate::jobs::{Job, Registry, State};
use crate::liveness;
use crate::manager::Manager;
use crate::pipeline::{JOB_COUNTER_PREFIX, PORT_COUNTER_PREFIX};
use crate::progress::Progress;
use crate::switch::{Counters, Switch, SwitchHealth};

/// A process that waits for a result for longer than this is worth a word: a lost slice takes a fraction of it.
const LONG_WAIT: Duration = Duration::from_secs(2);

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
pub(crate) fn job(job: &Job, progress: &Progress) -> v1::Job {
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
        job_id: job.record.generation().job.get().into(),
        job_index: job.record.job_index.into(),
        reason: reason.to_owned(),
        waiting_for: job.waiting_for().into_iter().chain(stalled(job, progress)).collect(),
        plan: Some(plan_summary(&job.record.generation().plan)),
        generation: job.record.current,
        last_change: job.record.last_change.clone(),
    }
}

/// The counters of the switches that are `wanted`, in the topology's order.
pub(crate) async fn all_counters(
    manager: &Manager,
    wanted: impl Fn(&str) -> bool,
) -> Vec<v1::SwitchCounters> {
    let read = manager.counters(wanted).await;
    let book = manager.book();
    let told = |(key, read): &(NodeKey, Counters)| counters(&manager.topology, &book.jobs, *key, read);
    read.iter().map(told).collect()
}

/// The managed switches, in the topology's order.
pub(crate) fn switches(manager: &Manager) -> Vec<v1::Switch> {
    let faults: Vec<(NodeKey, String)> = {
        let book = manager.book();
        let wrong =
            book.cabling.miswired().map(|one| (one.at.0, liveness::miswiring(&manager.topology, &one)));
        let dead = book.cabling.dead().flat_map(|link| {
            let ends = manager.topology[link].ends;
            let text = format!("no frames get through {}", liveness::cable(&manager.topology, link));
            ends.map(|end| (end.node, text.clone()))
        });
        wrong.chain(dead).collect()
    };
    let of_switch = |(key, one): (&NodeKey, &Switch)| {
        let own = faults.iter().filter(|(at, _)| at == key).map(|(_, text)| text.clone());
        v1::Switch { cable_faults: own.collect(), ..switch(&manager.topology, *key, one) }
    };
    manager.switches().iter().map(of_switch).collect()
}

/// Whose processes have been waiting for a result for long.
fn stalled<'a>(job: &'a Job, progress: &'a Progress) -> impl Iterator<Item = String> + 'a {
    let lives = job.is_alive();
    let long = progress.of(&job.record.name).filter(move |(_, told)| lives && told.stalled >= LONG_WAIT);
    long.map(|(host, told)| format!("a result, at {host} for {} s", told.stalled.as_secs()))
}

/// The counters of one switch: those of every job that still has its index, and of the ports that have a
/// link.
fn counters(
    topology: &Topology,
    jobs: &Registry,
    switch: NodeKey,
    counters: &Counters,
) -> v1::SwitchCounters {
    let cells = counters.last.as_ref().map(|reading| &*reading.cells).unwrap_or_default();
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
        unreachable: counters.stale.clone(),
        age_milliseconds: counters.last.as_ref().map(|reading| milliseconds(reading.at.elapsed())),
    }
}

/// A switch, and whether it is there.
fn switch(topology: &Topology, key: NodeKey, switch: &Switch) -> v1::Switch {
    let health = switch.health().borrow().clone();
    let (state, reason) = match &health {
        SwitchHealth::Connecting { .. } => (v1::SwitchState::Connecting, ""),
        SwitchHealth::Up { .. } => (v1::SwitchState::Up, ""),
        SwitchHealth::Away { reason, .. } => (v1::SwitchState::Away, reason.as_str()),
    };
    v1::Switch {
        cable_faults: Vec::new(),
        name: switch.name().to_owned(),
        node: topology.get(key).map(|node| node.id.get().into()).unwrap_or_default(),
        address: switch.address().to_owned(),
        state: state.into(),
        state_milliseconds: milliseconds(health.since().elapsed()),
        reason: reason.to_owned(),
        runs_our_program: switch.runs_our_program(),
        wanted_entries: switch.wanted_entries().try_into().unwrap_or(u32::MAX),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The last job that was given the index, if it uses the switch.
fn owner(jobs: &Registry, switch: NodeKey, index: u64) -> Option<&Job> {
    let (_, job) = jobs.iter().rev().find(|(_, job)| u64::from(job.record.job_index) == index)?;
    let on_tree =
        job.record.generation().plan.switches.iter().any(|role| role.key == switch && role.programmable);
    on_tree.then_some(job)
}
